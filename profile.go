package session

// The profiles say what providers refuse, as their API references have it, or
// where these are silent, as the errors say that users of the APIs report. They
// are about the order and the form of messages. What depends on the model is
// not in them: which media it takes, how long the history may be, whether the
// request may end with an assistant message.

// Anthropic is the Messages API (docs.claude.com: "Messages", "Handle tool
// calls", "Extended thinking").
//
//   - "Messages": roles are user and assistant and the system prompt is a
//     parameter of its own; neighbours of one role are combined, so they need not
//     alternate; the first is the user's; content is empty only in a last
//     assistant message; tool_use has an id of [a-zA-Z0-9_-]+, a name of
//     [a-zA-Z0-9_-]{1,128} and an object as input.
//   - "Handle tool calls": results come in the message directly behind the calls
//     and stand before any text.
//   - "Extended thinking": signed or redacted blocks, passed back whole.
//   - Errors: tool_use ids without tool_result directly behind; a tool_result whose
//     tool_use isn't in the previous message; more than one tool_result for an
//     id; tool_use ids not unique, in the whole request; text blocks empty or of
//     white space alone; thinking as an assistant message's final block.
var Anthropic = NewProfile("Anthropic",
	RuleRole, RuleDeveloper, RuleSystemFirst, RuleUserFirst, RulePlace, RuleContent, RuleText, RuleBlankText,
	RuleCallAnswered, RuleResultHasCall, RuleOneResult, RuleResultsFirst, RuleCallIDOnce, RuleCallIDUnique,
	RuleCallIDForm, RuleToolNamed, RuleToolNameForm, RuleInputObject, RuleThinkingSigned, RuleThinkingLed)

// OpenAI is the Chat Completions and the Responses API (platform.openai.com:
// "Chat Completions", "Responses", "Function calling", "Reasoning models").
// Arguments are a string there, and system and developer messages may stand
// anywhere but between a call and its result.
//
//   - "Function calling": one output for each call, matched by ID; function names
//     of [a-zA-Z0-9_-].
//   - "Reasoning models": reasoning items are passed back with the items that
//     follow them, from the last user message on.
//   - Errors: a tool_calls message not followed by tool messages for each
//     tool_call_id; a tool message without a preceding tool_calls; no tool output
//     found for a function call, and the reverse; a reasoning item without its
//     following item; a call_id longer than 64; content that is null.
var OpenAI = NewProfile("OpenAI",
	RuleRole, RulePlace, RuleContent, RuleCallAnswered, RuleResultHasCall, RuleOneResult, RuleResultsFirst,
	RuleCallIDOnce, RuleCallIDLength, RuleToolNamed, RuleToolNameForm, RuleThinkingLed)

// BedrockConverse is the Converse API of Amazon Bedrock (docs.aws.amazon.com,
// API reference: "Converse", "Message", "ToolUseBlock", "ToolResultBlock",
// "ReasoningTextBlock"; user guide: "Call a tool with the Converse API").
//
//   - "Message", "Converse": roles user and assistant, system apart.
//   - "ToolUseBlock": toolUseId of 1 to 64 and name of [a-zA-Z0-9_-]; input is
//     required and, by the error, a JSON object.
//   - "ToolResultBlock": content is required.
//   - Errors: a conversation starts with a user message and alternates; toolResult
//     blocks expected for IDs, more of them than toolUse blocks in the previous
//     turn, or with duplicate IDs; toolUse blocks with duplicate IDs; a text
//     field that is blank; no content.
//   - Claude models add Anthropic's errors: IDs in the whole request, order of
//     results, signatures, final thinking.
var BedrockConverse = NewProfile("BedrockConverse",
	RuleRole, RuleDeveloper, RuleSystemFirst, RuleUserFirst, RuleAlternate, RulePlace, RuleContent, RuleText,
	RuleBlankText, RuleResultContent, RuleCallAnswered, RuleResultHasCall, RuleOneResult, RuleResultsFirst,
	RuleCallIDOnce, RuleCallIDUnique, RuleCallIDLength, RuleCallIDForm, RuleToolNamed, RuleToolNameForm,
	RuleInputObject, RuleThinkingSigned, RuleThinkingLed)

// Gemini is generateContent of the Gemini API and Vertex AI (ai.google.dev:
// "Generating content", "Function calling"). A call's ID is optional there: a
// result goes to its call by order and name.
//
//   - "Generating content": roles user and model, systemInstruction apart; a
//     functionCall has a name and a struct as args.
//   - Errors: a function response turn that isn't directly behind a function call
//     turn; a number of function responses that isn't that of the calls; a
//     function call turn that is behind neither a user's nor a response turn;
//     multiturn requests that don't alternate; contents without parts; an empty
//     text parameter.
var Gemini = NewProfile("Gemini",
	RuleRole, RuleDeveloper, RuleSystemFirst, RuleUserFirst, RuleAlternate, RulePlace, RuleContent, RuleText,
	RuleCallAnswered, RuleResultHasCall, RuleOneResult, RuleCallIDOnce, RuleToolNamed, RuleInputObject)

// AnyProvider has every rule: what satisfies it satisfies every profile.
var AnyProvider = NewProfile("AnyProvider", everyRule...)
