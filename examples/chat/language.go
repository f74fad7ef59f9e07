package main

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// clause is a part of a text that says or asks one thing.
type clause struct {
	words    []string // as they were typed, without contractions; a comma is a word
	lower    []string // the same in lower case
	question bool
}

// text returns the clause as it was typed.
func (c clause) text() string { return phrase(c.words) }

// from returns the clause without its first n words.
func (c clause) from(n int) clause { return clause{c.words[n:], c.lower[n:], c.question} }

// begins reports whether the clause begins with these words.
func (c clause) begins(words string) bool {
	f := strings.Fields(words)
	return len(c.lower) >= len(f) && slices.Equal(c.lower[:len(f)], f)
}

// has reports whether a word is in the clause.
func (c clause) has(word string) bool { return slices.Contains(c.lower, word) }

func newClause(words []string, question bool) clause {
	c := clause{words: words, question: question}
	for _, w := range words {
		c.lower = append(c.lower, strings.ToLower(w))
	}
	return c
}

// phrase joins words to a text.
func phrase(words []string) string {
	return strings.TrimRight(strings.ReplaceAll(strings.Join(words, " "), " ,", ","), ", ")
}

var contractions = map[string]string{
	"i'm": "I am", "i've": "I have", "i'd": "I would", "i'll": "I will", "im": "I am",
	"don't": "do not", "doesn't": "does not", "didn't": "did not", "isn't": "is not", "aren't": "are not",
	"can't": "can not", "cannot": "can not", "won't": "will not", "wasn't": "was not", "dont": "do not",
	"what's": "what is", "whats": "what is", "where's": "where is", "who's": "who is", "how's": "how is",
	"it's": "it is", "that's": "that is", "they're": "they are", "name's": "name is", "favorite's": "favorite is",
}

// clauses takes a text apart.
func clauses(text string) []clause {
	text = strings.NewReplacer("’", "'", "‘", "'", "“", `"`, "”", `"`).Replace(text)
	var all []clause
	for line := range strings.Lines(text) {
		var sentence []string
		end := func(question bool) {
			all = append(all, split(sentence, question)...)
			sentence = nil
		}
		for _, w := range strings.Fields(line) {
			word := strings.TrimRight(w, ".!?;,:")
			mark := w[len(word):]
			if full, ok := contractions[strings.ToLower(word)]; ok {
				sentence = append(sentence, strings.Fields(full)...)
			} else if word != "" {
				sentence = append(sentence, word)
			}
			switch {
			case strings.ContainsAny(mark, "!?;") || strings.HasPrefix(mark, ".") && !abbreviated(word):
				end(strings.Contains(mark, "?"))
			case mark == ".":
				sentence[len(sentence)-1] += mark
			case mark != "":
				sentence = append(sentence, ",")
			}
		}
		end(false)
	}
	return all
}

// abbreviated reports whether a point after a word belongs to the word.
func abbreviated(word string) bool {
	switch strings.ToLower(word) {
	case "st", "dr", "mr", "mrs", "ms", "prof", "mt":
		return true
	}
	return len(word) == 1 && word >= "A" && word <= "Z" && word != "I"
}

// starters are words that begin a clause after a comma, "and" or "but".
var starters = []string{
	"i", "my", "it", "what", "where", "who", "how", "when", "which", "do", "am", "is", "remember", "please",
	"tell", "calculate", "compute", "evaluate", "call", "actually",
}

// askers are words that begin a question or ask for an answer.
var askers = []string{
	"what", "where", "who", "whose", "how", "which", "when", "why", "do", "does", "did", "am", "is", "are", "can",
	"could", "will", "tell", "calculate", "compute", "evaluate", "solve",
}

// split takes a sentence apart. In "I like tea and hate coffee" and in "I like
// tea but not coffee" the second clause gets what it leaves out.
func split(sentence []string, question bool) []clause {
	lower := newClause(sentence, false).lower
	var all []clause
	var current []string
	end := func(last bool) {
		c := newClause(current, last && question).trimmed()
		if len(c.words) > 0 {
			c.question = !c.demands() && (c.question || slices.Contains(askers, c.lower[0]))
			all = append(all, c)
		}
		current = nil
	}
	for i := 0; i < len(sentence); i++ {
		next, then := "", ""
		if i+1 < len(sentence) {
			next = lower[i+1]
		}
		if i+2 < len(sentence) {
			then = lower[i+2]
		}
		about := len(current) > 1 && strings.EqualFold(current[0], "I") && !slices.Contains(current, "to")
		comma := lower[i] == ","
		switch {
		case !slices.Contains([]string{",", "and", "but", "so", "then"}, lower[i]) || next == "":
			current = append(current, sentence[i])
		case about && !comma && next == "not" && kindOf(strings.ToLower(current[1])) != "":
			verb := current[1]
			end(false)
			current = []string{"I", "do", "not", verb}
			i++
		case about && continues(comma, next, then):
			end(false)
			current = []string{"I"}
		case slices.Contains(starters, next) && (next != "my" || states(lower[i+1:])):
			end(false)
		default:
			current = append(current, sentence[i])
		}
	}
	end(true)
	return all
}

// states reports whether words that begin with "my" may be a statement, and not
// only a thing.
func states(words []string) bool {
	return slices.Contains(words, "is") || slices.Contains(words, "are")
}

// continues reports whether these words, after a comma or "and", go on with
// what the subject does.
func continues(comma bool, next, then string) bool {
	switch {
	case then == "":
		return false
	case next == "do":
		return then == "not"
	case comma:
		return topicOf(next) == "opinion" || next == "prefer"
	}
	return kindOf(next) != "" || next == "live" || next == "work" || next == "am"
}

// demands reports whether a clause asks for something to be remembered.
func (c clause) demands() bool {
	return c.begins("remember that") || c.begins("remember to") || c.begins("do not forget")
}

var fillers = []string{
	",", "and", "but", "so", "then", "well", "oh", "ok", "okay", "actually", "no", "yes", "hi", "hello", "hey",
	"please", "correction", "also", "now", "sorry", "wait", "by the way", "in fact", "for the record", "today",
	"can you", "could you", "i said that", "i think",
}

// trimmed returns the clause without what says nothing at its ends. A greeting
// that is all there is stays.
func (c clause) trimmed() clause {
	for {
		i := slices.IndexFunc(fillers, func(f string) bool {
			return c.begins(f) && (len(strings.Fields(f)) < len(c.words) || f == ",")
		})
		if i < 0 {
			break
		}
		c = c.from(len(strings.Fields(fillers[i])))
	}
	for n := len(c.words); n > 0 && (c.words[n-1] == "," || n > 1 && c.lower[n-1] == "please"); n = len(c.words) {
		c.words, c.lower = c.words[:n-1], c.lower[:n-1]
	}
	return c
}

var yours = map[string]string{
	"i": "you", "me": "you", "my": "your", "mine": "yours", "myself": "yourself", "am": "are",
}

// toYou says to the user what the user has said.
func toYou(words []string) string {
	said := slices.Clone(words)
	for i, w := range said {
		if you, ok := yours[strings.ToLower(w)]; ok {
			said[i] = you
		}
	}
	return phrase(said)
}

// sentence begins a text with a capital and ends it with a point.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	first, n := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + sentenceEnd(text[n:])
}

// sentenceEnd ends a text with a point, unless it has one.
func sentenceEnd(text string) string { return strings.TrimSuffix(text, ".") + "." }

// enumerate joins things to "a, b and c".
func enumerate(things []string) string {
	if len(things) < 2 {
		return strings.Join(things, "")
	}
	return strings.Join(things[:len(things)-1], ", ") + " and " + things[len(things)-1]
}

// tails are what may follow the things of a statement.
var tails = []string{
	"any more", "anymore", "any longer", "very much", "a lot", "at all", "now", "these days", "instead", "too",
	"as well", "by the way", "most", "the most",
}

// withoutTail returns words without the tails.
func withoutTail(words []string) []string {
	c := newClause(words, false)
	for {
		n := len(c.words)
		for _, t := range tails {
			f := strings.Fields(t)
			if k := len(c.words) - len(f); k > 0 && slices.Equal(c.lower[k:], f) {
				c.words, c.lower = c.words[:k], c.lower[:k]
			}
		}
		if k := len(c.words) - 1; k > 0 && c.words[k] == "," {
			c.words, c.lower = c.words[:k], c.lower[:k]
		}
		if n == len(c.words) {
			return c.words
		}
	}
}

// things takes a list such as "tea, coffee and cake" apart.
func things(words []string) []string {
	var all []string
	var current []string
	for _, w := range append(slices.Clip(withoutTail(words)), ",") {
		switch strings.ToLower(w) {
		case ",", "and", "or":
			if len(current) > 0 {
				all = append(all, toYou(current))
			}
			current = nil
		default:
			current = append(current, w)
		}
	}
	return all
}

var article = regexp.MustCompile(`^(a|an|the|some|your|any) `)

// same is what two ways to write a thing have in common.
func same(thing string) string {
	s := strings.ToLower(thing)
	s = strings.NewReplacer("favourite", "favorite", "colour", "color").Replace(s)
	s = article.ReplaceAllString(s, "")
	if !strings.HasSuffix(s, "ss") && !strings.HasSuffix(s, "'s") {
		s = strings.TrimSuffix(s, "s")
	}
	return s
}
