package main

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	registryv1 "countersign/proto/countersign/registry/v1"
)

// toolChoice is which tools a command is about: a filter as the API has it, and
// short flags for what is asked for most.
type toolChoice struct {
	filter, search, server, provider, class string
	labels                                  []string
	facts                                   map[string]*bool // by the filter's field
	flags                                   *pflag.FlagSet
}

// choiceFacts are the facts of tools that have a flag each.
var choiceFacts = []struct{ flag, field, usage string }{
	{"enabled", "enabled", "that are switched on (=false: off)"},
	{"available", "available", "that their server offers (=false: not now)"},
	{"bound", "bound", "whose approval holds (=false: not)"},
	{"callable", "callable", "that can be called now (=false: not)"},
	{"quarantined", "quarantined", "in quarantine (=false: not)"},
	{"requires-approval", "requires_approval", "whose calls need an approval each (=false: not)"},
}

func (o *toolChoice) addFlags(command *cobra.Command) {
	o.flags, o.facts = command.Flags(), map[string]*bool{}
	o.flags.StringVar(&o.filter, "filter", "", "`EXPRESSION` of tool_id, name, server_id, server, provider, class, enabled, available, bound, callable, quarantined, requires_approval and labels.KEY, compared by =, != and : (contains), joined by AND")
	o.flags.StringVar(&o.search, "search", "", "`WORDS` that name, title, description or server must all have, each as the beginning of a word")
	o.flags.StringVar(&o.server, "of", "", "tools of the server of that `NAME`")
	o.flags.StringVar(&o.provider, "provider", "", "tools of the provider of that `NAME`")
	o.flags.StringVar(&o.class, "class", "", "tools of a `CLASS`: "+classWords())
	o.flags.StringArrayVar(&o.labels, "label", nil, "tools of servers with a label, `KEY=VALUE`; repeatable")
	for _, f := range choiceFacts {
		o.facts[f.field] = o.flags.Bool(f.flag, true, "tools "+f.usage)
	}
	completeWords(command, "class", words[registryv1.SideEffectClass]())
}

// expression is all of the choice but the search, as one filter.
func (o *toolChoice) expression() (string, error) {
	var terms []string
	if o.filter != "" {
		terms = append(terms, o.filter)
	}
	if o.server != "" {
		terms = append(terms, "server = "+quoted(o.server))
	}
	if o.provider != "" {
		terms = append(terms, "provider = "+quoted(o.provider))
	}
	if o.class != "" {
		if !isClass(o.class) {
			return "", usagef("--class %q: there is %s", o.class, classWords())
		}
		terms = append(terms, "class = "+o.class)
	}
	for _, label := range o.labels {
		key, value, found := strings.Cut(label, "=")
		if !found || key == "" {
			return "", usagef("--label %q is not KEY=VALUE", label)
		}
		terms = append(terms, "labels."+quoted(key)+" = "+quoted(value))
	}
	for _, f := range choiceFacts {
		if o.flags.Changed(f.flag) {
			terms = append(terms, f.field+" = "+strconv.FormatBool(*o.facts[f.field]))
		}
	}
	return strings.Join(terms, " AND "), nil
}

// quoted makes any text a value of a filter.
func quoted(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
}

// some is the expression of a choice that must name something: tools by their ids,
// or by the flags.
func (o *toolChoice) some(ids []string) (string, error) {
	filter, err := o.expression()
	if err == nil && len(ids) == 0 && filter == "" && o.search == "" {
		err = usagef("name tools by their ids, or choose them by flags; --filter 'tool_id:*' is all of them")
	}
	return filter, err
}
