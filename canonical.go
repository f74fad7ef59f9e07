package session

import "unicode/utf8"

// Canonical returns a deep copy of messages in the form in which a store
// returns them; see [Message]. It accepts what AppendMessage accepts; anything
// else is ErrInvalidMessage, and the error says which message and which block,
// counted from 1. Without an error the result is not nil.
func Canonical(messages []Message) ([]Message, error) {
	c := copier{canonical: true}
	for i := range messages {
		if err := c.check(&messages[i]); err != nil {
			return nil, invalidMessage(i, err)
		}
	}
	c.allocate()
	copies := make([]Message, len(messages))
	for i := range messages {
		from, to := &messages[i], &copies[i]
		*to = *from
		to.Content, to.Time = c.content(from.Content), from.Time.UTC()
		if from.Metadata != nil {
			var err error
			if to.Metadata, err = canonicalMetadata(from.Metadata); err != nil {
				return nil, invalidMessage(i, err)
			}
		}
	}
	return copies, nil
}

// check validates a message but for its metadata, and counts.
func (c *copier) check(m *Message) error {
	switch {
	case m.Role == "":
		return errNoRole
	case !utf8.ValidString(string(m.Role)) || !utf8.ValidString(m.ID):
		return errNotUTF8
	}
	if !m.Time.IsZero() {
		if y := m.Time.UTC().Year(); y < 0 || y > 9999 {
			return errTimeYear
		}
	}
	return c.checkContent(m.Content, 0)
}

func (c *copier) checkContent(content []Block, depth int) error {
	if len(content) > 1 {
		c.nSlots += len(content)
	}
	for i, b := range content {
		if err := c.checkBlock(b, depth); err != nil {
			return inBlock(i, err)
		}
	}
	return nil
}

func (c *copier) checkBlock(b Block, depth int) error {
	valid := true
	switch b := b.(type) {
	case *TextBlock:
		if b == nil {
			return errNilBlock
		}
		c.nText++
		valid = utf8.ValidString(b.Text)
	case *ThinkingBlock:
		if b == nil {
			return errNilBlock
		}
		c.nThinking++
		c.countBytes(b.Redacted)
		valid = utf8.ValidString(b.Text) && utf8.ValidString(b.Signature)
	case *MediaBlock:
		if b == nil {
			return errNilBlock
		}
		c.nMedia++
		c.countBytes(b.Data)
		valid = utf8.ValidString(string(b.Type)) && utf8.ValidString(b.MIMEType) &&
			utf8.ValidString(b.Name) && utf8.ValidString(b.SourceURI)
	case *ToolUseBlock:
		if b == nil {
			return errNilBlock
		}
		c.nUse++
		if c.countBytes(b.Input); len(b.Input) > 0 {
			if err := validateJSON(b.Input); err != nil {
				return err
			}
		}
		valid = utf8.ValidString(b.ID) && utf8.ValidString(b.Name)
	case *ToolResultBlock:
		switch {
		case b == nil:
			return errNilBlock
		case depth >= maxDepth:
			return errTooDeep
		case !utf8.ValidString(b.ToolUseID) || !utf8.ValidString(b.Name):
			return errNotUTF8
		}
		c.nResult++
		return c.checkContent(b.Content, depth+1)
	case *RawBlock:
		switch {
		case b == nil:
			return errNilBlock
		case b.Type == "":
			return errNoType
		}
		c.nRaw++
		c.countBytes(b.Data)
		if err := validateJSON(b.Data); err != nil {
			return err
		}
		valid = utf8.ValidString(b.Type)
	default:
		return errNilBlock
	}
	if !valid {
		return errNotUTF8
	}
	return nil
}
