// Command deploycheck reads docker-compose.yml and the Dockerfile as Docker
// would, and rules and queries of monitoring as Prometheus would, and says what is wrong with them. It needs no engine.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: deploycheck REPOSITORY")
		os.Exit(2)
	}
	if err := errors.Join(compose(os.Args[1]), dockerfile(os.Args[1]), monitoring(os.Args[1])); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// compose loads the project with all interpolation, and checks what the
// format does not: that what is mounted exists, that the deprecated image is
// not used, and that ports stay on loopback.
func compose(root string) error {
	options, err := cli.NewProjectOptions([]string{filepath.Join(root, "docker-compose.yml")}, cli.WithWorkingDirectory(root), cli.WithName("countersign"))
	if err != nil {
		return err
	}
	project, err := options.LoadProject(context.Background())
	if err != nil {
		return fmt.Errorf("docker-compose.yml: %w", err)
	}
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("docker-compose.yml: "+format, args...))
	}
	for _, want := range []string{"postgres", "temporal-schema", "temporal", "temporal-ui", "migrate", "migrate-temporal", "api", "worker"} {
		if !slices.Contains(project.ServiceNames(), want) {
			fault("no service %s", want)
		}
	}
	owner := project.Services["postgres"].Environment["POSTGRES_USER"]
	for _, name := range []string{"api", "worker"} {
		for key, value := range project.Services[name].Environment {
			if value == nil || !strings.HasPrefix(*value, "postgres://") {
				continue
			}
			if login, err := url.Parse(*value); err != nil || owner == nil || login.User.Username() == *owner {
				fault("service %s logs in to Postgres as the owner of everything, by %s", name, key)
			}
		}
	}
	for name, service := range project.Services {
		if strings.Contains(service.Image, "auto-setup") {
			fault("service %s uses the deprecated auto-setup image", name)
		}
		for _, volume := range service.Volumes {
			if _, err := os.Stat(volume.Source); volume.Type == "bind" && err != nil {
				fault("service %s mounts what is not there: %w", name, err)
			}
		}
		for _, port := range service.Ports {
			if port.HostIP != "127.0.0.1" {
				fault("service %s opens port %s beyond loopback", name, port.Published)
			}
		}
	}
	return errors.Join(faults...)
}

// dockerfile parses the stages and checks that the last one is not root's.
func dockerfile(root string) error {
	file, err := os.Open(filepath.Join(root, "Dockerfile"))
	if err != nil {
		return err
	}
	defer file.Close()
	tree, err := parser.Parse(file)
	if err != nil {
		return fmt.Errorf("Dockerfile: %w", err)
	}
	stages, _, err := instructions.Parse(tree.AST, nil)
	if err != nil {
		return fmt.Errorf("Dockerfile: %w", err)
	}
	if len(stages) < 2 {
		return errors.New("Dockerfile: one stage only")
	}
	last := stages[len(stages)-1]
	for _, command := range last.Commands {
		if user, ok := command.(*instructions.UserCommand); ok && !strings.HasPrefix(user.User, "root") && user.User != "0" {
			return nil
		}
	}
	return errors.New("Dockerfile: the last stage runs as root")
}
