package mcptest

import (
	"strconv"
	"strings"
)

// shape bends the messages of one answer.
type shape struct {
	idKind string   // see answerSpec.ID
	before []string // messages sent ahead of the answer
	storm  int      // notifications that a list changed, ahead of the answer
	kind   string   // of the list that changed
	batch  bool     // everything in one array
	bom    bool
	tail   string
}

func (s *shape) id(id string) string {
	switch s.idKind {
	case "wrong":
		return "987654321"
	case "other-type":
		if strings.HasPrefix(id, `"`) {
			return "1"
		}
		return `"` + id + `"`
	case "null":
		return "null"
	case "missing":
		return ""
	}
	return id
}

// messages gives what is sent in place of one message.
func (s *shape) messages(message string) []string {
	if s == nil {
		return []string{message}
	}
	out := append([]string(nil), s.before...)
	for n := range s.storm {
		out = append(out, `{"jsonrpc":"2.0","method":"notifications/`+s.kind+`/list_changed","params":{"_meta":{"n":`+strconv.Itoa(n+1)+`}}}`)
	}
	out = append(out, message)
	if s.idKind == "twice" {
		out = append(out, message)
	}
	if s.batch {
		out = []string{"[" + strings.Join(out, ",") + "]"}
	}
	if s.bom {
		out[0] = "\ufeff" + out[0]
	}
	out[len(out)-1] += s.tail
	return out
}

// several says whether one answer becomes more than one message, which plain
// JSON over HTTP cannot carry.
func (s *shape) several() bool {
	return !s.batch && (len(s.before) > 0 || s.storm > 0 || s.idKind == "twice")
}
