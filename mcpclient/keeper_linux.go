package mcpclient

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"countersign/registry"
)

// Keeper is what a worker keeps its processes by. It notes in a file that it
// lives, gives each process a cgroup where the machine has delegated one, and
// removes, when it is opened, what dead workers left: processes, cgroups and
// containers. What belongs to a worker that lives it does not touch: a worker
// holds a lock (flock) on its file, which ends with it however it ends.
//
// A nil Keeper keeps nothing: no cgroups, no containers.
type Keeper struct {
	id    string
	note  *os.File
	group string // directory of our cgroup, in which each process has its own; empty: there is none
	cpu   bool   // it holds the processor's time, too
	why   string // there is no cgroup
	count atomic.Int64

	engineEnv []string // environment of Docker and Podman

	mu    sync.Mutex
	noted map[string]bool // lines of the note
}

// noteSuffix ends the names of workers' files.
const noteSuffix = ".worker"

// OpenKeeper removes what dead workers left and begins to keep. Errors are those
// of the state directory and of a cgroup that was named; that there is none to be
// found is none.
func OpenKeeper(ctx context.Context, o KeeperOptions) (*Keeper, error) {
	dir, err := stateDir(o.StateDir)
	if err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	env := engineEnv(o.Environ)
	reap(ctx, dir, env, o.Log)
	k := &Keeper{noted: map[string]bool{}, engineEnv: env}
	if k.note, k.id, err = newNote(dir); err != nil {
		return nil, fmt.Errorf("worker.state_dir: %w", err)
	}
	if err := k.delegate(o.Cgroup, "/proc/self"); err != nil {
		k.Close()
		return nil, err
	}
	return k, nil
}

// Close gives back what the keeper has. All processes must have ended.
func (k *Keeper) Close() {
	if k == nil {
		return
	}
	if k.group != "" {
		_ = removeGroup(k.group)
	}
	_, _ = os.Remove(k.note.Name()), k.note.Close()
}

// Bounds says for people what keeps all processes of one server together within
// limits, and whether it is the kernel that does.
func (k *Keeper) Bounds() (held bool, how string) {
	switch {
	case k == nil:
		return false, "no cgroup is used"
	case k.group == "":
		return false, k.why
	case !k.cpu:
		return true, "cgroups in " + filepath.Dir(k.group) + ", which has no controller for the processor's time"
	}
	return true, "cgroups in " + filepath.Dir(k.group)
}

// owner is the word that our supervisors have.
func (k *Keeper) owner() string {
	if k == nil {
		return "nobody"
	}
	return k.id
}

// how says the same in a word for the steps of one visit.
func (k *Keeper) how() string {
	if held, _ := k.Bounds(); held {
		return "limits held by the kernel"
	}
	return "limits looked at every 50 ms"
}

// remember adds a line to our note, once: what is to be removed after us.
func (k *Keeper) remember(kind, what string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	line := kind + " " + what + "\n"
	if k.noted[line] {
		return nil
	}
	if _, err := k.note.WriteString(line); err != nil {
		return err
	}
	k.noted[line] = true
	return nil
}

// stateDir gives the directory of notes. A note says what to remove, so nobody
// else may write there.
func stateDir(configured string) (string, error) {
	dir := cmp.Or(configured, filepath.Join(os.TempDir(), "countersign-"+strconv.Itoa(os.Geteuid())))
	wrong := func(format string, args ...any) (string, error) {
		return "", fmt.Errorf("worker.state_dir: %s %w; name a directory of this user that outlives the process", dir, fmt.Errorf(format, args...))
	}
	if !filepath.IsAbs(dir) {
		return wrong("is no absolute path")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return wrong("cannot be made: %w", err)
	}
	var info unix.Stat_t
	if err := unix.Lstat(dir, &info); err != nil {
		return wrong("cannot be looked at: %w", err)
	}
	switch {
	case info.Mode&unix.S_IFMT != unix.S_IFDIR:
		return wrong("is no directory")
	case int(info.Uid) != os.Geteuid():
		return wrong("belongs to another user")
	case info.Mode&0o022 != 0:
		return wrong("can be written by others")
	}
	return dir, nil
}

// newNote makes a file of our own and locks it.
func newNote(dir string) (*os.File, string, error) {
	for range 8 {
		var b [8]byte
		_, _ = rand.Read(b[:]) // it does not fail
		id := hex.EncodeToString(b[:])
		f, err := os.OpenFile(filepath.Join(dir, id+noteSuffix), os.O_CREATE|os.O_EXCL|os.O_RDWR|os.O_APPEND, 0o600)
		if err != nil {
			return nil, "", err
		}
		if locked(f) {
			return f, id, nil
		}
		_ = f.Close() // another's reaper was here in between
	}
	return nil, "", errors.New("others take away every new file")
}

// locked locks a file unless another has, and unless it is not there any more
// under its name.
func locked(f *os.File) bool {
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		return false
	}
	held, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(f.Name())
	return err == nil && os.SameFile(held, there)
}

// note is what a worker left.
type note struct {
	id    string
	lines [][2]string // kind, what
}

// reap removes what dead workers left. What cannot be removed now stays noted for
// the next worker.
func reap(ctx context.Context, dir string, env []string, log *slog.Logger) {
	files, _ := filepath.Glob(filepath.Join(dir, "*"+noteSuffix))
	for _, path := range files {
		f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW, 0)
		if err != nil {
			continue
		}
		if locked(f) {
			n := note{id: strings.TrimSuffix(filepath.Base(path), noteSuffix)}
			for lines := bufio.NewScanner(f); lines.Scan(); {
				if kind, what, ok := strings.Cut(lines.Text(), " "); ok {
					n.lines = append(n.lines, [2]string{kind, what})
				}
			}
			left, err := n.reap(ctx, env)
			attrs := []slog.Attr{slog.String("worker", n.id), slog.Any("removed", left)}
			switch {
			case err != nil:
				log.LogAttrs(ctx, slog.LevelWarn, "what a dead worker left cannot be removed", append(attrs, slog.Any("error", err))...)
			case len(left) > 0:
				log.LogAttrs(ctx, slog.LevelWarn, "a dead worker had left something, which was removed", attrs...)
			}
			if err == nil {
				_ = os.Remove(path)
			}
		}
		_ = f.Close()
	}
}

// reap removes what one dead worker left, and says what that was.
func (n note) reap(ctx context.Context, env []string) (removed []string, err error) {
	supervisors, err := endSupervisors(n.id)
	removed = append(removed, supervisors...)
	for _, line := range n.lines {
		kind, what := line[0], line[1]
		if slices.Contains(registry.Containers, registry.Sandbox(kind)) {
			containers, failed := reapContainers(ctx, env, registry.Sandbox(kind), n.id)
			removed, err = append(removed, containers...), errors.Join(err, failed)
			continue
		}
		if kind == noteCgroup && filepath.IsAbs(what) && filepath.Base(what) == groupName(n.id) {
			if _, gone := os.Stat(what); errors.Is(gone, fs.ErrNotExist) {
				continue
			}
			err = errors.Join(err, removeGroup(what))
			removed = append(removed, what)
		}
	}
	return removed, err
}
