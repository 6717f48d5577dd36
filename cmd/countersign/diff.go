package main

import (
	"encoding/json"
	"slices"

	"github.com/spf13/cobra"

	"countersign/registry"
)

func newDiffCommand(c *cli) *cobra.Command {
	command := &cobra.Command{
		Use: "diff OLD NEW", Short: "Compare what a server offered with what it offers, from files", Args: cobra.ExactArgs(2),
		Long: `Compares two files and says what changed in meaning: for callers, for readers of
results, for models that read descriptions, and in what tools claim to do. Files
are those of "countersign capture", raw results of tools/list, arrays of such
pages, or arrays of tools; - is standard input. No API is asked.

The text is Markdown, the worst first. The exit code is 7 when something is
breaking or escalating.`,
		Example: `  countersign diff approved.json now.json
  countersign diff approved.json now.json -o json`,
		RunE: func(_ *cobra.Command, args []string) error { return c.diff(args[0], args[1]) },
	}
	c.addOutputFlag(command.Flags())
	command.Flags().BoolVarP(&c.quiet, "quiet", "q", false, "no notes on standard error, only errors")
	completeWords(command, "output", formats())
	return command
}

func (c *cli) diff(oldName, newName string) error {
	if oldName == "-" && newName == "-" {
		return usagef("only one of the two files can be standard input")
	}
	from, err := c.readSurface(oldName)
	if err != nil {
		return err
	}
	to, err := c.readSurface(newName)
	if err != nil {
		return err
	}
	names := [2]string{from.label(oldName), to.label(newName)}
	if names[0] == names[1] {
		names = [2]string{some(", ", names[0], oldName), some(", ", names[1], newName)}
	}
	for i, s := range []*seen{from, to} {
		if s.more {
			c.notef("%s says that there are more pages, which are not in it", [2]string{oldName, newName}[i])
		}
	}
	onlyShared(from, to)
	a, err := from.snapshot(oldName)
	if err != nil {
		return err
	}
	b, err := to.snapshot(newName)
	if err != nil {
		return err
	}
	d := registry.Compare(a, b)
	if err := c.show(diffDocument(d), changedNames(d), func(s *sheet) { writeDiff(s, names, d) }); err != nil {
		return err
	}
	if d.Severity.AtLeast(registry.SeverityBreaking) {
		return &failure{Exit: exitFindings, silent: true, Message: "something is " + string(d.Severity)}
	}
	return nil
}

// diffResult is what -o json gives. Scripts depend on it.
type diffResult struct {
	Added     []string      `json:"added"`
	Removed   []string      `json:"removed"`
	Renamed   []diffRename  `json:"renamed"`
	Changed   []diffChanged `json:"changed"`
	Unchanged int           `json:"unchanged"`
}

type diffRename struct {
	From  string  `json:"from"`
	To    string  `json:"to"`
	Score float64 `json:"score"`
}

type diffChanged struct {
	Name      string            `json:"name"`
	Contract  bool              `json:"contract"`
	Text      bool              `json:"text"`
	Behaviour bool              `json:"behaviour"`
	Severity  registry.Severity `json:"severity"`
	Changes   []diffChange      `json:"changes"`
}

type diffChange struct {
	Path     string              `json:"path"`
	Kind     registry.ChangeKind `json:"kind"`
	Severity registry.Severity   `json:"severity"`
	Before   json.RawMessage     `json:"before"`
	After    json.RawMessage     `json:"after"`
}

// diffDocument is the difference of the tools. Added and removed ones are sorted
// by name, changed ones the worst first.
func diffDocument(d registry.Diff) diffResult {
	r := diffResult{
		Added: []string{}, Removed: []string{}, Renamed: []diffRename{}, Changed: []diffChanged{},
		Unchanged: d.Tools.Counts.Unchanged,
	}
	for _, pair := range d.Tools.Renamed {
		r.Renamed = append(r.Renamed, diffRename{pair.From, pair.To, pair.Score})
	}
	for _, item := range d.Tools.Items {
		switch item.Status {
		case registry.DiffAdded:
			r.Added = append(r.Added, item.Name)
		case registry.DiffRemoved:
			r.Removed = append(r.Removed, item.Name)
		case registry.DiffChanged:
			changed := diffChanged{item.Name, item.Contract, item.Text, item.Behaviour, item.Severity, []diffChange{}}
			for _, change := range item.Changes {
				changed.Changes = append(changed.Changes, diffChange{change.Path, change.Kind, change.Severity, change.Before, change.After})
			}
			r.Changed = append(r.Changed, changed)
		default:
		}
	}
	slices.Sort(r.Added)
	slices.Sort(r.Removed)
	return r
}

// changedNames are the tools that are not what they were, the worst first.
func changedNames(d registry.Diff) []string {
	var out []string
	for _, item := range d.Tools.Items {
		if item.Status != registry.DiffUnchanged {
			out = append(out, item.Name)
		}
	}
	return out
}
