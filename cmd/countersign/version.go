package main

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// build is what this program was built from.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision"` // of the source; empty when the build did not record it
	Modified bool   `json:"modified"` // the source differed from the revision
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func readBuild() build {
	b := build{Version: "devel", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		b.Version = v
	}
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			b.Revision = setting.Value
		case "vcs.modified":
			b.Modified = setting.Value == "true"
		}
	}
	return b
}

func newVersionCommand(c *cli) *cobra.Command {
	command := &cobra.Command{
		Use: "version", Short: "Say which version this is", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			b := readBuild()
			return c.show(b, []string{b.Version}, func(s *sheet) {
				s.linef("countersign %s", some(", ", b.Version, b.Revision, b.Go, b.Platform))
			})
		},
	}
	c.addOutputFlag(command.Flags())
	return command
}
