package main

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/session"
	"github.com/holdfast-go/session/memstore"
)

// newChat returns a chat on a store in memory, with a clock that stands still.
func newChat(t *testing.T) *chat {
	t.Helper()
	store := memstore.New(nil)
	t.Cleanup(func() { store.Close() })
	clock := func() time.Time { return time.Date(2026, 3, 14, 15, 9, 0, 0, time.UTC) }
	policy, err := session.NewSlidingWindowManager(session.SlidingWindowOptions{WindowSize: 100})
	if err != nil {
		t.Fatal(err)
	}
	return &chat{store: store, sessionID: "ada", model: rules{}, tools: newTools(clock), policy: policy, clock: clock}
}

func TestModel(t *testing.T) {
	tests := []struct {
		name    string
		prompts []string // the last is the one whose answer counts
		want    string   // in the answer
		not     string   // not in the answer
	}{
		{name: "Name", prompts: []string{"My name is Ada and I like tea.", "What is my name?"}, want: "Ada", not: "tea"},
		{name: "NameTypedCarelessly", prompts: []string{"my name is ada", "whats my name"}, want: "ada"},
		{name: "NameByIAm", prompts: []string{"Hi, I'm Ada.", "Do you know my name?"}, want: "Ada"},
		{name: "NameCalled", prompts: []string{"Please call me Ada.", "Who am I?"}, want: "Ada"},
		{name: "NameChanges", prompts: []string{"My name is Ada.", "Actually, my name is Grace.", "What is my name?"}, want: "Grace", not: "Ada"},
		{name: "NameDenied", prompts: []string{"My name is not Ada, it's Grace.", "What's my name?"}, want: "Grace", not: "Ada"},
		{name: "NameUnknown", prompts: []string{"I like tea.", "What is my name?"}, want: "not told me", not: "tea"},
		{name: "NameOfAnother", prompts: []string{"My name is Ada.", "What is my sister's name?"}, want: "not told me", not: "Ada"},
		{name: "ModelsName", prompts: []string{"My name is Ada.", "What is your name?"}, want: "model", not: "Ada"},

		{name: "Like", prompts: []string{"My name is Ada and I like tea.", "What do I like?"}, want: "you like tea"},
		{name: "SeveralLikes", prompts: []string{"I like tea, cheese and long walks.", "I love jazz!", "What do I like?"}, want: "you like tea, cheese and long walks, and you love jazz"},
		{name: "LikeAndHate", prompts: []string{"I like tea and hate coffee.", "What do I like?"}, want: "tea", not: "coffee"},
		{name: "Hate", prompts: []string{"I like tea but hate coffee.", "What do I hate?"}, want: "you hate coffee", not: "tea"},
		{name: "NotLike", prompts: []string{"I like tea but not coffee.", "What don't I like?"}, want: "you do not like coffee", not: "tea"},
		{name: "NoLongerLike", prompts: []string{"I like tea and cake.", "I don't like tea any more.", "What do I like?"}, want: "cake", not: "tea"},
		{name: "HateAfterLike", prompts: []string{"I like tea.", "I hate tea.", "Do I like tea?"}, want: "No, you hate tea"},
		{name: "LikeAfterHate", prompts: []string{"I hate tea.", "I love tea now.", "Do I like tea?"}, want: "Yes, you love tea"},
		{name: "LikeOwn", prompts: []string{"I like my cat and my job.", "What do I like?"}, want: "your cat and your job"},
		{name: "OnlyDislikes", prompts: []string{"I don't like tea.", "What do I like?"}, want: "you do not like tea"},
		{name: "LikeUnknown", prompts: []string{"I like tea.", "Do I like coffee?"}, want: "not told me"},
		{name: "WishIsNoLike", prompts: []string{"I'd like a coffee.", "What do I like?"}, not: "you like"},
		{name: "QuestionIsNoStatement", prompts: []string{"Do I like tea?", "What do I like?"}, want: "not told me"},
		{name: "Prefer", prompts: []string{"I prefer tea to coffee.", "What do I prefer?"}, want: "tea to coffee"},
		{name: "PreferChanges", prompts: []string{"I prefer tea to coffee.", "I prefer coffee to tea.", "Do I prefer tea?"}, want: "coffee to tea"},
		{name: "LikeMore", prompts: []string{"I like tea more than coffee.", "What do I prefer?"}, want: "tea to coffee"},

		{name: "Home", prompts: []string{"I live in St. Petersburg. I like tea.", "Where do I live?"}, want: "St. Petersburg."},
		{name: "HomeChanges", prompts: []string{"I live in Rome.", "I moved to Oslo.", "Which city do I live in?"}, want: "Oslo", not: "Rome"},
		{name: "HomeLeft", prompts: []string{"I live in Rome.", "I no longer live in Rome.", "Do I live in Rome?"}, want: "No"},
		{name: "HomeNotElsewhere", prompts: []string{"I live in Oslo.", "I don't live in Rome.", "Where do I live?"}, want: "Oslo", not: "Rome"},
		{name: "From", prompts: []string{"I'm from Peru.", "Where am I from?"}, want: "Peru"},
		{name: "Job", prompts: []string{"I work as a nurse at Charité.", "What is my job?"}, want: "nurse", not: "Charité"},
		{name: "Workplace", prompts: []string{"I work as a nurse at Charité.", "Where do I work?"}, want: "Charité", not: "nurse"},
		{name: "JobChanges", prompts: []string{"I work as a nurse.", "My job is pilot.", "What do I do?"}, want: "pilot", not: "nurse"},
		{name: "Age", prompts: []string{"I am 36 years old.", "How old am I?"}, want: "36"},

		{name: "Own", prompts: []string{"My favourite colour is dark blue.", "What is my favorite color?"}, want: "dark blue"},
		{name: "OwnChanges", prompts: []string{"My locker is 12.", "My locker is 13.", "What is my locker?"}, want: "13", not: "12"},
		{name: "OwnCalled", prompts: []string{"My dog is called Rex.", "What is the name of my dog?"}, want: "Rex"},
		{name: "OwnPlural", prompts: []string{"My hobbies are chess and my garden.", "What are my hobbies?"}, want: "Your hobbies are chess and your garden."},
		{name: "Remember", prompts: []string{"Remember that the gate code is 4711.", "I like tea.", "What is the gate code?"}, want: "4711"},
		{name: "RememberChanges", prompts: []string{"Remember that the gate code is 4711.", "Remember that the gate code is 4712.", "What did I ask you to remember?"}, want: "4712", not: "4711"},
		{name: "RememberFact", prompts: []string{"Please remember that my name is Ada.", "What is my name?"}, want: "Ada"},
		{name: "RememberList", prompts: []string{"I like tea.", "Remember to buy milk.", "What did I ask you to remember?"}, want: "buy milk", not: "tea"},
		{name: "OtherStatement", prompts: []string{"My brother lives in Oslo.", "Where does my brother live?"}, want: "My brother lives in Oslo"},
		{name: "Everything", prompts: []string{"My name is Ada.", "I live in Oslo.", "What do you know about me?"}, want: "your name is Ada; you live in Oslo"},
		{name: "SamePrompt", prompts: []string{"My name is Ada. What is my name?"}, want: "Your name is Ada."},
		{name: "SeveralQuestions", prompts: []string{"My name is Ada and I like tea.", "What is my name and what do I like?"}, want: "Your name is Ada. You like tea."},

		{name: "Calculate", prompts: []string{"What is 12 * (3+4)?"}, want: "84"},
		{name: "CalculateWords", prompts: []string{"How much is 3 times 4 plus 2?"}, want: "14"},
		{name: "CalculateTwice", prompts: []string{"What is 2 + 3? What is 4 x 5?"}, want: "2 + 3 = 5. 4 * 5 = 20."},
		{name: "DivideByZero", prompts: []string{"What is 1/0?"}, want: "division by zero"},
		{name: "NoExpression", prompts: []string{"Calculate 2 + (3"}, want: "Sorry"},
		{name: "Clock", prompts: []string{"what time is it?"}, want: "15:09 on Saturday, 14 March 2026"},
		{name: "FactAndTool", prompts: []string{"I like tea. What is 1 + 1?", "What do I like?"}, want: "tea"},

		{name: "NoWords", prompts: []string{"?!"}, want: "tell me about yourself"},
		{name: "Hello", prompts: []string{"My name is Ada.", "Hello!"}, want: "Hello, Ada"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := newChat(t)
			var answer string
			for _, p := range test.prompts {
				var err error
				if answer, err = c.turn(t.Context(), p); err != nil {
					t.Fatalf("turn(%q): %v", p, err)
				}
			}
			if !strings.Contains(strings.ToLower(answer), strings.ToLower(test.want)) {
				t.Errorf("answer to %q = %q, want one with %q", test.prompts, answer, test.want)
			}
			if test.not != "" && strings.Contains(answer, test.not) {
				t.Errorf("answer to %q = %q, want one without %q", test.prompts, answer, test.not)
			}
		})
	}
}

// The model may read any history, whoever wrote it.
func TestModelOddHistories(t *testing.T) {
	tests := []struct {
		name    string
		history []session.Message
	}{
		{"Empty", nil},
		{"NoPrompt", []session.Message{session.SystemText("Be kind."), session.AssistantText("Hello!")}},
		{"EmptyPrompt", []session.Message{session.NewMessage(session.RoleUser)}},
		{"OnlyMarks", []session.Message{session.UserText(", . , and and my is. I. I do not. my. remember. call me. it is")}},
		{"Contractions", []session.Message{session.UserText("I'm. can't, isn't; what's my? I am. I am from. I work as. I live in.")}},
		{"ForeignResult", []session.Message{session.UserText("hi"), session.ToolResults(session.ToolResult("x", "y", "z"))}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			reply, err := rules{}.Reply(t.Context(), test.history)
			if err != nil || reply.Role != session.RoleAssistant || reply.Text() == "" {
				t.Errorf("Reply(%v) = %v, %v, want a text", test.history, reply, err)
			}
		})
	}
}

func FuzzModel(f *testing.F) {
	f.Add("My name is not Ada, it's Grace. What's 2 x 3?", "I like tea but not coffee")
	f.Add("remember that my dog is called. , and", "I am not. Do I like? what is the name of my")
	f.Fuzz(func(t *testing.T, first, second string) {
		history := []session.Message{session.UserText(first), session.UserText(second)}
		reply, err := rules{}.Reply(t.Context(), history)
		if err != nil || len(reply.Content) == 0 {
			t.Errorf("Reply(%q, %q) = %v, %v, want content", first, second, reply, err)
		}
	})
}
