package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"countersign/registry"
)

// contextsFile is what the client keeps for its user: where APIs are, and with
// which token each is asked.
type contextsFile struct {
	Current  string         `yaml:"current_context,omitempty"`
	Contexts []savedContext `yaml:"contexts"`
}

// savedContext is one API and where its token is: in the file itself, in
// another file, or in a variable of the environment. At most one of the three.
type savedContext struct {
	Name      string      `yaml:"name"`
	Server    string      `yaml:"server"`
	Token     string      `yaml:"token,omitempty"`
	TokenFile string      `yaml:"token_file,omitempty"`
	TokenEnv  string      `yaml:"token_env,omitempty"`
	Login     *savedLogin `yaml:"login,omitempty"` // how the token came, if somebody signed in

	Certificates certificateFiles `yaml:",inline"`
}

// tokenFrom says where the token is, without saying it.
func (s savedContext) tokenFrom() string {
	switch {
	case s.Token != "" && s.Login != nil:
		return "login at " + s.Login.Issuer
	case s.Token != "":
		return "stored"
	case s.TokenFile != "":
		return "file " + s.TokenFile
	case s.TokenEnv != "":
		return "env " + s.TokenEnv
	}
	return "none"
}

func (f *contextsFile) find(name string) (savedContext, error) {
	for _, s := range f.Contexts {
		if s.Name == name {
			return s, nil
		}
	}
	return savedContext{}, (&failure{Exit: exitNotFound, Message: fmt.Sprintf("there is no context %q", name)}).
		withNext("countersign config get-contexts")
}

// contextsPath is where the contexts are kept, by the XDG base directories.
func (c *cli) contextsPath() (string, error) {
	if dir := c.getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "countersign", "config.yaml"), nil
	}
	home := c.getenv("HOME")
	if home == "" {
		return "", errors.New("neither XDG_CONFIG_HOME nor HOME says where contexts are kept")
	}
	return filepath.Join(home, ".config", "countersign", "config.yaml"), nil
}

// loadContexts reads the contexts; a file that is not there has none.
func (c *cli) loadContexts() (*contextsFile, error) {
	path, err := c.contextsPath()
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &contextsFile{}, nil
	}
	if err != nil {
		return nil, err
	}
	var f contextsFile
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&f); err != nil && len(bytes.TrimSpace(text)) > 0 {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o077 != 0 &&
		slices.ContainsFunc(f.Contexts, func(s savedContext) bool { return s.Token != "" }) {
		c.notef("warning: others can read the tokens in %s; chmod 600 it", path)
	}
	return &f, nil
}

// saveContexts writes the contexts whole or not at all, for the user alone.
func (c *cli) saveContexts(f *contextsFile) (err error) {
	path, err := c.contextsPath()
	if err != nil {
		return err
	}
	text, err := yaml.Marshal(f)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	draft, err := os.CreateTemp(filepath.Dir(path), ".config-*") // made with mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(draft.Name()))
		}
	}()
	_, err = draft.Write(text)
	if err = errors.Join(err, draft.Sync(), draft.Close()); err != nil {
		return err
	}
	return os.Rename(draft.Name(), path)
}

func newConfigCommand(c *cli) *cobra.Command {
	command := &cobra.Command{
		Use:   "config",
		Short: "Contexts: which Countersign to talk to, and as whom",
		Long: `Contexts name the APIs that you talk to and the token for each. They are kept
in $XDG_CONFIG_HOME/countersign/config.yaml, else ~/.config/countersign/config.yaml,
which only you can read.

A flag goes before a context named by --context, which goes before the
environment, which goes before the current context. The token of a context is
sent to the server of that context only.`,
	}
	group(command)
	command.AddCommand(getContextsCommand(c), useContextCommand(c), setContextCommand(c), deleteContextCommand(c), currentContextCommand(c))
	return command
}

// contextRow is a context as it is shown: never with its token.
type contextRow struct {
	Name    string `json:"name"`
	Server  string `json:"server"`
	Token   string `json:"token"` // where it is
	Current bool   `json:"current"`
}

var contexts = view[contextRow]{
	plural: "contexts",
	name:   func(r contextRow) string { return r.Name },
	columns: []column[contextRow]{
		{title: "NAME", text: func(r contextRow) string { return r.Name }},
		{title: "CURRENT", text: func(r contextRow) string { return yesNo(r.Current) }},
		{title: "SERVER", text: func(r contextRow) string { return r.Server }},
		{title: "TOKEN", text: func(r contextRow) string { return r.Token }},
	},
}

func getContextsCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "get-contexts", Short: "List the contexts", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			f, err := c.loadContexts()
			if err != nil {
				return err
			}
			var rows []contextRow
			for _, s := range f.Contexts {
				rows = append(rows, contextRow{s.Name, s.Server, s.tokenFrom(), s.Name == f.Current})
			}
			return showList(c, contexts, rows)
		},
	}
}

func currentContextCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "current-context", Short: "Name the current context", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			f, err := c.loadContexts()
			if err != nil {
				return err
			}
			if f.Current == "" {
				return (&failure{Exit: exitNotFound, Message: "there is no current context"}).
					withNext("countersign config use-context NAME")
			}
			return c.show(map[string]string{"name": f.Current}, []string{f.Current}, func(s *sheet) { s.linef("%s", f.Current) })
		},
	}
}

func useContextCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "use-context NAME", Short: "Make a context the current one", Args: cobra.ExactArgs(1),
		ValidArgsFunction: c.completeContexts,
		RunE: func(_ *cobra.Command, args []string) error {
			f, err := c.loadContexts()
			if err != nil {
				return err
			}
			if _, err := f.find(args[0]); err != nil {
				return err
			}
			f.Current = args[0]
			if err := c.saveContexts(f); err != nil {
				return err
			}
			c.notef("the current context is %s", args[0])
			return nil
		},
	}
}

func setContextCommand(c *cli) *cobra.Command {
	var tokenEnv string
	command := &cobra.Command{
		Use:   "set-context NAME --server URL [--token TOKEN | --token-file FILE | --token-env NAME]",
		Short: "Make or change a context",
		Long: `Makes a context, or changes of an existing one what the flags name. The first
context becomes the current one. --token stores the token itself; --token-file
and --token-env store where it is. --ca-file, --client-cert and --client-key store
where the certificates are with which the server is spoken to.`,
		Example: "  countersign config set-context dev --server http://127.0.0.1:8080 --token-env DEV_TOKEN",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: c.completeContexts,
		RunE: func(_ *cobra.Command, args []string) error {
			if tokenEnv != "" && (c.token != "" || c.tokenFile != "") {
				return usagef("--token, --token-file and --token-env exclude each other")
			}
			f, err := c.loadContexts()
			if err != nil {
				return err
			}
			i := slices.IndexFunc(f.Contexts, func(s savedContext) bool { return s.Name == args[0] })
			if i < 0 {
				if c.server == "" {
					return usagef("a new context needs --server URL")
				}
				f.Contexts = append(f.Contexts, savedContext{Name: args[0]})
				i = len(f.Contexts) - 1
			}
			if err := c.change(&f.Contexts[i], tokenEnv); err != nil {
				return err
			}
			if f.Current == "" {
				f.Current = args[0]
			}
			if err := c.saveContexts(f); err != nil {
				return err
			}
			if f.Current == args[0] {
				c.notef("context %s is set, and is the current one", args[0])
				return nil
			}
			c.notef("context %s is set", args[0])
			c.nextf("countersign config use-context %s", args[0])
			return nil
		},
	}
	command.Flags().StringVar(&tokenEnv, "token-env", "", "`NAME` of the environment variable that holds the token")
	return command
}

// change changes of a context what the flags name.
func (c *cli) change(s *savedContext, tokenEnv string) error {
	if strings.TrimSpace(s.Name) == "" || printable(s.Name) != s.Name {
		return usagef("%q is no name for a context", s.Name)
	}
	if c.server != "" {
		server, err := parseServer("--server", c.server)
		if err != nil {
			return err
		}
		if server != s.Server {
			s.Token, s.TokenFile, s.TokenEnv, s.Login = "", "", "", nil // they were another server's
			s.Certificates = certificateFiles{}
		}
		s.Server = server
	}
	given, err := c.files.absolute()
	if err != nil {
		return err
	}
	s.Certificates = given.over(s.Certificates)
	switch {
	case c.token != "":
		token, err := checkToken(c.token, "--token")
		if err != nil {
			return err
		}
		s.Token, s.TokenFile, s.TokenEnv, s.Login = token, "", "", nil
	case c.tokenFile != "":
		path, err := filepath.Abs(c.tokenFile)
		if err != nil {
			return err
		}
		s.Token, s.TokenFile, s.TokenEnv, s.Login = "", path, "", nil
	case tokenEnv != "":
		s.Token, s.TokenFile, s.TokenEnv, s.Login = "", "", tokenEnv, nil
	}
	return nil
}

func deleteContextCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "delete-context NAME", Short: "Forget a context", Args: cobra.ExactArgs(1),
		ValidArgsFunction: c.completeContexts,
		RunE: func(_ *cobra.Command, args []string) error {
			f, err := c.loadContexts()
			if err != nil {
				return err
			}
			if _, err := f.find(args[0]); err != nil {
				return err
			}
			f.Contexts = slices.DeleteFunc(f.Contexts, func(s savedContext) bool { return s.Name == args[0] })
			if f.Current == args[0] {
				f.Current = ""
			}
			if err := c.saveContexts(f); err != nil {
				return err
			}
			c.notef("context %s is forgotten", args[0])
			return nil
		},
	}
}

// readToken reads the token of a file.
func readToken(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("reading the token: %w", err)
	}
	return checkToken(string(text), path)
}

// checkToken trims a token and refuses one that no HTTP header can carry. It
// says where a bad one came from, never what it is.
func checkToken(token, from string) (string, error) {
	token = strings.TrimSpace(token)
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", failf(registry.ReasonInvalidArgument, "%s holds no usable token: one word of ASCII is needed", from)
	}
	return token, nil
}
