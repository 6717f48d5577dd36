package mcpclient

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"countersign/registry"
)

// TestWhatDockerAndPodmanAreTold, argument by argument.
func TestWhatDockerAndPodmanAreTold(t *testing.T) {
	t.Parallel()
	const image = "ghcr.io/x/y@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	always := `run --interactive --rm --pull never --name countersign-7-1 --label countersign.worker=7 --log-driver none --read-only --cap-drop ALL
		--security-opt no-new-privileges --user 65532:65532 --hostname sandbox --ipc private`
	defaults := ` --memory 1073741824 --memory-swap 1073741824 --pids-limit 256 --cpus 2 --ulimit nofile=1024:1024 --ulimit fsize=536870912:536870912
		--ulimit core=0:0 --ulimit cpu=600:600 --tmpfs /tmp:rw,nosuid,nodev,mode=1777,size=536870912 --shm-size 536870912 --env-file /proc/self/fd/3`
	for name, tt := range map[string]struct {
		command Command
		want    string
	}{
		"nothing asked for": {
			Command{Argv: []string{"/server"}, Sandbox: registry.SandboxDocker, Image: image, Env: []string{"TOKEN=s3cr3t"}},
			always + defaults + " --network none --entrypoint /server " + image,
		},
		"by Podman": {
			Command{Argv: []string{"/server", "--stdio"}, Sandbox: registry.SandboxPodman, Image: image},
			always + defaults + " --read-only-tmpfs=false --http-proxy=false --network none --entrypoint /server " + image + " --stdio",
		},
		"all asked for": {
			Command{
				Argv: []string{"/server", "--privileged"}, Sandbox: registry.SandboxDocker, Image: image, Network: true, Dir: "/data", Mounts: []string{"/srv/a", "/srv/b"},
				Limits: registry.CommandLimits{Memory: 64 << 20, Tmp: 1 << 20, Tasks: 9, OpenFiles: 99, CPUTime: time.Minute, CPUs: 0.25},
			},
			always + ` --memory 67108864 --memory-swap 67108864 --pids-limit 9 --cpus 0.25 --ulimit nofile=99:99 --ulimit fsize=1048576:1048576
				--ulimit core=0:0 --ulimit cpu=60:60 --tmpfs /tmp:rw,nosuid,nodev,mode=1777,size=1048576 --shm-size 1048576 --env-file /proc/self/fd/3
				--workdir /data --mount type=bind,source=/srv/a,target=/srv/a,readonly --mount type=bind,source=/srv/b,target=/srv/b,readonly
				--entrypoint /server ` + image + " --privileged",
		},
	} {
		if diff := cmp.Diff(strings.Fields(tt.want), containerArgs("7", "countersign-7-1", &tt.command)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
