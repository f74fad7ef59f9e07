package main

import (
	"slices"
	"strings"
)

// answer answers a question from what the user has said. It reports whether it
// knows.
func (m *memory) answer(c clause) (string, bool) {
	for _, ask := range []string{"can you tell me", "tell me", "do you know", "do you remember", "do you still know"} {
		if c.begins(ask) && len(c.words) > len(strings.Fields(ask)) {
			c = c.from(len(strings.Fields(ask)))
		}
	}
	for _, try := range []func(clause) (string, bool){m.answerAll, m.answerMy, m.answerI, m.answerSaid} {
		if text, ok := try(c); ok {
			return text, true
		}
	}
	return "I don't know. You have not told me.", false
}

// answerAll answers what the user has said or asked to remember at all.
func (m *memory) answerAll(c clause) (string, bool) {
	asked := c.has("remember") && (c.has("ask") || c.has("asked") || c.has("should") || c.has("you"))
	all := c.has("me") && c.has("about") || c.has("i") && (c.has("tell") || c.has("told") || c.has("say") || c.has("said"))
	if !asked && !all || !c.begins("what") && !c.begins("everything") {
		return "", false
	}
	known := slices.DeleteFunc(slices.Clone(m.facts), func(f fact) bool { return !f.asked && !all })
	switch {
	case len(known) == 0 && asked:
		return "You have not asked me to remember anything.", true
	case len(known) == 0:
		return "You have not told me anything yet.", true
	case asked:
		return "You asked me to remember: " + strings.Join(says(known), "; ") + ".", true
	}
	return "I know this: " + strings.Join(says(known), "; ") + ".", true
}

// answerMy answers questions about "my …".
func (m *memory) answerMy(c clause) (string, bool) {
	my := slices.Index(c.lower, "my")
	if my < 0 || my+1 == len(c.words) || slices.Contains(c.lower[:my], "i") {
		return "", false
	}
	label := c.words[my+1:]
	for _, verb := range []string{"is", "are"} {
		if i := slices.Index(c.lower[my+1:], verb); i > 0 {
			label = label[:i] // "my name is what"
		}
	}
	label = withoutTail(label)
	if last := strings.ToLower(label[len(label)-1]); len(label) > 1 && (last == "called" || last == "named") {
		label = append(slices.Clone(label[:len(label)-1]), "name")
		label[len(label)-2] += "'s"
	}
	if my > 1 && c.lower[my-1] == "of" {
		label = append(slices.Clone(label), c.words[my-2]) // "the name of my dog"
		label[len(label)-2] += "'s"
	}
	for ; len(label) > 0; label = label[:len(label)-1] {
		topic := ownTopic(toYou(label))
		if slices.Contains([]string{"my home", "my city", "my town", "my addres"}, topic) && len(m.about(topic)) == 0 {
			topic = "live"
		}
		if f, ok := m.known(topic); ok {
			return sentence(f.says), true
		}
	}
	return "", false
}

// answerI answers questions about what "I" am and do.
func (m *memory) answerI(c clause) (string, bool) {
	i := slices.Index(c.lower, "i")
	switch {
	case i < 0 || c.begins("i"):
		return "", false
	case c.begins("who am i"):
		return m.tell("name", "am", "job")
	case c.begins("what am i") && len(c.words) == 3:
		return m.tell("am", "job")
	case c.begins("how old am i"):
		return m.tell("my age")
	case c.has("from") && (c.has("am") || c.has("come")):
		return m.tell("from")
	case c.has("live") && !c.begins("do i"):
		return m.tell("live")
	case c.has("work") && !c.begins("do i"):
		if c.begins("where") {
			return m.tell("workplace")
		}
		return m.tell("job", "workplace")
	case c.begins("what do i do"):
		return m.tell("job", "workplace")
	case c.begins("am i"):
		return m.confirm("am", c.words[i+1:], true)
	}
	rest, negated := negation(c.from(i + 1))
	if len(rest.words) == 0 {
		return "", false
	}
	negated = negated || i > 0 && c.lower[i-1] == "not" // "don't I like"
	verb := rest.lower[0]
	topic := topicOf(verb)
	if verb == "live" || verb == "work" {
		return m.confirmPlace(verb, rest.from(1))
	}
	switch {
	case topic == "":
		return "", false
	case c.begins("do") && len(rest.words) > 1:
		return m.confirm(topic, rest.words[1:], negated == (kindOf(verb) == "hate"))
	case topic == "prefer":
		return m.tell("prefer")
	}
	return m.list(topic, negated == (kindOf(verb) == "hate"))
}

// tell says all that is known of some topics.
func (m *memory) tell(topics ...string) (string, bool) {
	var known []fact
	for _, t := range topics {
		known = append(known, m.about(t)...)
	}
	return sentence(recite(known)), len(known) > 0
}

// list says what the user likes, has and so on, or does not. What they prefer
// they like.
func (m *memory) list(topic string, positive bool) (string, bool) {
	known := m.about(topic)
	fit := slices.DeleteFunc(slices.Clone(known), func(f fact) bool { return f.positive() != positive })
	switch {
	case len(fit) > 0:
		return sentence(recite(fit)), true
	case topic == "opinion" && positive && len(m.about("prefer")) > 0:
		return m.tell("prefer")
	case len(known) > 0:
		return "I only know this: " + recite(known) + ".", true
	}
	return "", false
}

// recite says facts to the user.
func recite(facts []fact) string { return strings.Join(says(facts), ", and ") }

// says returns what facts say, those with the same verb together.
func says(facts []fact) []string {
	var verbs []string
	things := make(map[string][]string)
	for _, f := range facts {
		verb, found := strings.CutSuffix(f.says, f.thing)
		if things[verb] == nil {
			verbs = append(verbs, verb)
		}
		if found {
			things[verb] = append(things[verb], f.thing)
		} else {
			things[verb] = append(things[verb], "")
		}
	}
	for i, verb := range verbs {
		verbs[i] += enumerate(things[verb])
	}
	return verbs
}

// confirm answers yes or no to questions about things: whether what the user
// said of them is positive.
func (m *memory) confirm(topic string, words []string, positive bool) (string, bool) {
	if topic == "prefer" {
		return m.tell("prefer")
	}
	var known []fact
	agreed := true
	for _, thing := range things(words) {
		i := slices.IndexFunc(m.facts, func(f fact) bool { return f.topic == topic && f.norm == same(thing) })
		if i < 0 {
			continue
		}
		known = append(known, m.facts[i])
		agreed = agreed && m.facts[i].positive() == positive
	}
	switch {
	case len(known) == 0:
		return "", false
	case slices.ContainsFunc(words, func(w string) bool { return strings.EqualFold(w, "or") }):
		return sentence(recite(known)), true
	case agreed:
		return "Yes, " + recite(known) + ".", true
	}
	return "No, " + recite(known) + ".", true
}

// confirmPlace answers whether the user lives or works at a place.
func (m *memory) confirmPlace(verb string, c clause) (string, bool) {
	topic := verb
	if verb == "work" {
		topic = "workplace"
		if c.begins("as") {
			topic = "job"
		}
	}
	f, ok := m.known(topic)
	switch {
	case !ok:
		return "", false
	case len(c.words) > 1 && same(toYou(withoutTail(c.words[1:]))) == f.norm && !f.negated:
		return "Yes, " + f.says + ".", true
	case len(c.words) > 1:
		return "No, " + f.says + ".", true
	}
	return sentence(f.says), true
}

// common are words that don't tell what a question is about.
var common = strings.Fields(`a an the is are am was were be do does did i me my you your it its that this there of to in
	on at for and or not what where who whose which when why how please tell know remember about will would can could
	should have has had many much , with from by`)

// answerSaid finds, of the statements without facts, the one that has the most
// in common with a question, at least half of what the question is about. Of
// several it is the newest.
func (m *memory) answerSaid(c clause) (string, bool) {
	asked := stems(c.lower)
	best, most := -1, 0
	for i, s := range m.unparsed {
		n := 0
		said := stems(s.lower)
		for _, w := range asked {
			if slices.Contains(said, w) {
				n++
			}
		}
		if n > 0 && 2*n >= len(asked) && n >= most {
			best, most = i, n
		}
	}
	if best < 0 {
		return "", false
	}
	return `You told me: "` + m.unparsed[best].text() + `".`, true
}

// stems returns the uncommon words without their endings.
func stems(words []string) []string {
	var all []string
	for _, w := range words {
		if slices.Contains(common, w) {
			continue
		}
		for _, ending := range []string{"'s", "ing", "ed", "es", "s", "e"} {
			if short, ok := strings.CutSuffix(w, ending); ok && len(short) > 2 {
				w = short
				break
			}
		}
		all = append(all, w)
	}
	return all
}
