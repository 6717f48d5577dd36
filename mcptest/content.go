package mcptest

import (
	"encoding/json"
	"io"
	"strings"
	"time"
)

// content is a text of any length, with a pace: written as a JSON string, or as
// an object of these members.
type content struct {
	Text   string   `json:"text"`
	Repeat *int     `json:"repeat"` // -1 = until nobody reads
	Every  duration `json:"every"`  // pause after each time
}

func (c *content) fromText(text string) error { //nolint:unparam // others fail
	c.Text = text
	return nil
}

// all gives the whole text; those without end are given once.
func (c *content) all() string {
	return strings.Repeat(c.Text, max(c.times(), 1))
}

func (c *content) times() int {
	if c.Repeat == nil {
		return 1
	}
	return *c.Repeat
}

// stream writes the text piece by piece, and stops when write fails or pause
// says that the reader has gone.
func (c *content) stream(expand func(string) string, out io.Writer, pause func(time.Duration) bool) error {
	text, times := expand(c.Text), c.times()
	if text == "" {
		return nil
	}
	if c.Every == 0 && times != 1 && len(text) < 32<<10 {
		// Fewer, larger pieces, so that a hundred megabytes are quick.
		per := 32 << 10 / len(text)
		if times > 0 {
			per = min(per, times)
			if _, err := io.WriteString(out, strings.Repeat(text, times%per)); err != nil {
				return err
			}
			times /= per
		}
		text = strings.Repeat(text, per)
	}
	for n := 0; n != times; n++ {
		if _, err := io.WriteString(out, text); err != nil {
			return err
		}
		if !pause(time.Duration(c.Every)) {
			return io.ErrClosedPipe
		}
	}
	return nil
}

// names is one text or several.
type names []string

func (n *names) fromText(text string) error {
	*n = names{text}
	return nil
}

func texts(raw []json.RawMessage) []string {
	out := make([]string, len(raw))
	for i, r := range raw {
		out[i] = string(r)
	}
	return out
}
