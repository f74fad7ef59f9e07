package main

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// fact is something that the user has said about themselves.
type fact struct {
	topic   string // "name", "live", "opinion", "my favorite color"
	verb    string // "like"; of topics with several verbs
	thing   string // as it is said to the user: "tea", "your sister's cat"
	other   string // what thing is preferred to
	negated bool
	asked   bool   // the user asked for it to be remembered
	says    string // the whole, said to the user: "you like tea"
	norm    string // same(thing)
}

// memory is what a user has said so far.
type memory struct {
	facts    []fact   // the newest last
	fresh    []fact   // those of the last statement
	unparsed []clause // the statements that hold no other facts than notes
	it       string   // the topic that "it" stands for
	asking   bool     // the statement begins with "remember"
}

// isSingle reports whether there is one fact of a topic, the newest. Of other
// topics there is one for each thing.
func isSingle(topic string) bool {
	return slices.Contains([]string{"name", "live", "job", "workplace", "from"}, topic) || strings.HasPrefix(topic, "my ")
}

// kinds of verbs. What is liked and what is hated is one topic, so that the
// newest statement about a thing wins.
var kinds = map[string]string{
	"like": "like", "love": "like", "enjoy": "like", "adore": "like", "hate": "hate", "dislike": "hate",
	"detest": "hate", "prefer": "prefer", "have": "have", "own": "have", "want": "want", "need": "need", "use": "use",
	"speak": "speak", "play": "play", "drink": "drink", "eat": "eat", "study": "study", "drive": "drive",
}

// kindOf returns the kind of a verb, or "".
func kindOf(verb string) string { return kinds[verb] }

// topicOf returns the topic of the facts with a verb.
func topicOf(verb string) string {
	if k := kindOf(verb); k != "like" && k != "hate" {
		return k
	}
	return "opinion"
}

// positive reports whether the fact says that its thing is liked, had, and so
// on.
func (f fact) positive() bool { return f.negated == (kindOf(f.verb) == "hate") }

// learn notes a fact in place of those that it corrects. "I don't live in Rome"
// tells nothing to one who knows Oslo.
func (m *memory) learn(f fact) {
	f.norm, f.asked = same(f.thing), m.asking
	if m.it = ""; f.negated {
		m.it = f.topic
	}
	corrects := func(old fact) bool { return old.topic == f.topic && (isSingle(f.topic) || old.norm == f.norm) }
	m.fresh = append(m.fresh, f)
	if f.negated && slices.ContainsFunc(m.facts, func(old fact) bool {
		return corrects(old) && !old.negated && old.norm != f.norm
	}) {
		return
	}
	m.facts = append(slices.DeleteFunc(m.facts, corrects), f)
}

// about returns the facts of a topic, oldest first.
func (m *memory) about(topic string) []fact {
	var found []fact
	for _, f := range m.facts {
		if f.topic == topic {
			found = append(found, f)
		}
	}
	return found
}

// known returns the fact of a single topic.
func (m *memory) known(topic string) (fact, bool) {
	found := m.about(topic)
	if len(found) == 0 {
		return fact{}, false
	}
	return found[0], true
}

// hear takes in a statement and returns the facts in it.
func (m *memory) hear(c clause) []fact {
	m.fresh = nil
	rest := c
	for more := true; more; {
		rest, more = withoutDemand(rest)
	}
	if len(rest.words) == 0 {
		return nil
	}
	m.asking = len(rest.words) < len(c.words)
	m.take(rest)
	if len(m.fresh) > 0 {
		return m.fresh
	}
	m.unparsed = append(m.unparsed, rest)
	if m.asking {
		note := fact{topic: "note", thing: rest.text(), says: `"` + rest.text() + `"`}
		if i := slices.Index(rest.lower, "is"); i > 0 {
			note.thing = phrase(rest.words[:i]) // a later "… is" replaces it
		}
		m.learn(note)
	}
	return m.fresh
}

// demands begin what the user asks to be remembered.
var demands = []string{
	"remember that", "remember to", "remember", "do not forget that", "do not forget to", "do not forget",
	"note that", "keep in mind that", "never forget that",
}

func withoutDemand(c clause) (rest clause, found bool) {
	for _, d := range demands {
		if c.begins(d) {
			return c.from(len(strings.Fields(d))).trimmed(), true
		}
	}
	return c, false
}

// take learns what a statement says.
func (m *memory) take(c clause) {
	switch {
	case len(c.words) < 3:
		return
	case c.begins("call me"):
		name := phrase(withoutTail(c.words[2:]))
		m.learn(fact{topic: "name", thing: name, says: "your name is " + name})
	case c.begins("i"):
		m.takeI(c.from(1))
	case c.begins("my"):
		m.takeMy(c.from(1))
	case c.begins("it is"):
		m.takeIt(c.from(2))
	}
}

// takeMy learns from "my X is Y", without its "my".
func (m *memory) takeMy(c clause) {
	i := slices.IndexFunc(c.lower, func(w string) bool { return w == "is" || w == "are" })
	if i < 1 || i+1 >= len(c.words) {
		return
	}
	label, verb, rest := toYou(c.words[:i]), c.lower[i], c.from(i+1)
	negated := rest.lower[0] == "not"
	if negated {
		rest = rest.from(1)
	}
	if rest.begins("called") || rest.begins("named") {
		label, verb, rest = label+"'s name", "is", rest.from(1)
	}
	if but := slices.Index(rest.lower, "but"); negated && but > 0 && but+1 < len(rest.words) {
		negated, rest = false, rest.from(but+1) // "is not Ada but Grace"
	}
	if len(rest.words) == 0 {
		return
	}
	value := toYou(withoutTail(rest.words))
	m.learn(fact{
		topic: ownTopic(label), thing: value, negated: negated,
		says: "your " + label + " " + verb + " " + not(negated) + value,
	})
}

func not(negated bool) string {
	if negated {
		return "not "
	}
	return ""
}

// takeIt learns from "it is Y" after "my X is not Z".
func (m *memory) takeIt(c clause) {
	old, ok := m.known(m.it)
	head, _, found := strings.Cut(old.says, " is ")
	if !ok || !found || !isSingle(m.it) || c.lower[0] == "not" {
		return
	}
	value := toYou(withoutTail(c.words))
	m.learn(fact{topic: m.it, thing: value, says: head + " is " + value})
}

// ownTopic returns the topic of what a user calls "my …".
func ownTopic(label string) string {
	switch s := same(label); s {
	case "name":
		return s
	case "job", "profession", "occupation":
		return "job"
	default:
		return "my " + s
	}
}

var adverbs = []string{
	"really", "also", "still", "just", "now", "always", "usually", "mostly", "actually", "absolutely", "truly",
	"currently", "only", "do", "most", "so",
}

var negations = []string{"do not", "no longer", "used to", "never", "not"}

// negation returns a clause without the adverbs and negations that it begins
// with, and whether it was negated.
func negation(c clause) (rest clause, negated bool) {
	for len(c.words) > 0 {
		i := slices.IndexFunc(negations, c.begins)
		switch {
		case i >= 0:
			negated = true
			c = c.from(len(strings.Fields(negations[i])))
		case slices.Contains(adverbs, c.lower[0]):
			c = c.from(1)
		default:
			return c, negated
		}
	}
	return c, negated
}

// takeI learns from "I …", without its "I".
func (m *memory) takeI(c clause) {
	c, negated := negation(c)
	if len(c.words) < 2 {
		return
	}
	switch verb := c.lower[0]; {
	case c.begins("can not stand"):
		m.takeVerb("hate", c.from(3), negated)
	case verb == "am":
		m.takeAm(c.from(1))
	case verb == "live", verb == "moved" && c.lower[1] == "to":
		m.takeHome(c.from(1), negated)
	case c.begins("come from"):
		m.learnPlace("from", "come from", c.from(2), negated)
	case verb == "work":
		m.takeWork(c.from(1), negated)
	case verb == "prefer":
		m.takePreference(c.from(1), negated)
	case kindOf(verb) != "":
		m.takeVerb(verb, c.from(1), negated)
	}
}

// takeVerb learns from "tea and coffee" after a verb.
func (m *memory) takeVerb(verb string, c clause, negated bool) {
	than := slices.Index(c.lower, "than")
	if kindOf(verb) == "like" && than > 1 && (c.lower[than-1] == "more" || c.lower[than-1] == "better") {
		m.learnPreference(c.words[:than-1], c.words[than+1:], negated)
		return
	}
	do := "you "
	if negated {
		do = "you do not "
	}
	for _, thing := range things(c.words) {
		m.learn(fact{topic: topicOf(verb), verb: verb, thing: thing, negated: negated, says: do + verb + " " + thing})
	}
}

// takePreference learns from "tea to coffee".
func (m *memory) takePreference(c clause, negated bool) {
	i := slices.IndexFunc(c.lower, func(w string) bool { return w == "to" || w == "over" })
	if i < 1 {
		m.learnPreference(c.words, nil, negated)
		return
	}
	m.learnPreference(c.words[:i], c.words[i+1:], negated)
}

// learnPreference notes what is preferred, to another thing if there is one. It
// corrects what was said of the same two, or of no other.
func (m *memory) learnPreference(words, otherWords []string, negated bool) {
	thing, other := toYou(withoutTail(words)), toYou(withoutTail(otherWords))
	f := fact{topic: "prefer", thing: thing, other: other, negated: negated, says: "you prefer " + thing}
	if negated {
		f.says = "you do not prefer " + thing
	}
	if other != "" {
		f.says += " to " + other
	}
	m.facts = slices.DeleteFunc(m.facts, func(old fact) bool {
		return old.topic == "prefer" && (old.other == "" || old.norm == same(other) && same(old.other) == same(thing))
	})
	m.learn(f)
}

var age = regexp.MustCompile(`^[0-9]{1,3}$`)

// takeAm learns from "a nurse", "from Rome", "36 years old", "called Ada" and
// "Ada", after "I am".
func (m *memory) takeAm(c clause) {
	c, negated := negation(c)
	if len(c.words) == 0 {
		return
	}
	value := toYou(withoutTail(c.words))
	switch first := c.lower[0]; {
	case c.begins("called") || c.begins("named"):
		m.learnName(c.from(1), negated)
	case first == "from":
		m.learnPlace("from", "come from", c.from(1), negated)
	case age.MatchString(first) && (len(c.words) == 1 || c.lower[1] == "years"):
		m.learn(fact{topic: "my age", thing: first, negated: negated, says: "you are " + not(negated) + first + " years old"})
	case first == "a" || first == "an":
		m.learn(fact{topic: "am", thing: value, negated: negated, says: "you are " + not(negated) + value})
	case first == "living":
		m.takeHome(c.from(1), negated)
	case first == "working":
		m.takeWork(c.from(1), negated)
	case isName(c.words):
		if _, known := m.known("name"); !known || negated {
			m.learnName(c, negated)
		}
	}
}

func (m *memory) learnName(c clause, negated bool) {
	if len(c.words) > 0 {
		name := phrase(withoutTail(c.words))
		m.learn(fact{topic: "name", thing: name, negated: negated, says: "your name is " + not(negated) + name})
	}
}

// isName reports whether all words begin with a capital.
func isName(words []string) bool {
	return !slices.ContainsFunc(words, func(w string) bool {
		first, _ := utf8.DecodeRuneInString(w)
		return !unicode.IsUpper(first)
	})
}

// takeHome learns from "in X", after "I live", and from "to X", after "I moved".
func (m *memory) takeHome(c clause, negated bool) {
	switch {
	case len(c.words) < 2:
	case c.lower[0] == "to":
		m.learnPlace("live", "live in", c.from(1), negated)
	case slices.Contains([]string{"in", "at", "near", "on", "by"}, c.lower[0]):
		m.learnPlace("live", "live "+c.lower[0], c.from(1), negated)
	}
}

// takeWork learns from "as X", "at Y" and "as X at Y", after "I work".
func (m *memory) takeWork(c clause, negated bool) {
	places := []string{"at", "for", "in", "from", "with"}
	if c.begins("as") {
		end := slices.IndexFunc(c.lower, func(w string) bool { return slices.Contains(places, w) })
		if end < 0 {
			end = len(c.words)
		}
		m.learnPlace("job", "work as", newClause(c.words[1:end], false), negated)
		c = c.from(end)
	}
	if len(c.words) > 1 && slices.Contains(places, c.lower[0]) {
		m.learnPlace("workplace", "work "+c.lower[0], c.from(1), negated)
	}
}

// learnPlace notes where the user is at home or at work.
func (m *memory) learnPlace(topic, verb string, c clause, negated bool) {
	if len(c.words) == 0 {
		return
	}
	place, do := toYou(withoutTail(c.words)), "you "
	if negated {
		do = "you do not "
	}
	m.learn(fact{topic: topic, thing: place, negated: negated, says: do + verb + " " + place})
}
