package dbtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// Server is a Postgres server that lives in a temporary directory, in memory if possible, and ends with the process that started it, however
// that ends. It forgets everything and survives no crash: nothing waits for the disk.
type Server struct {
	// DSN names the server's first database, as its superuser, over TCP on the loopback address.
	DSN string

	leash io.Closer
	ended <-chan error
}

// ErrNotInstalled means that this machine has no Postgres.
var ErrNotInstalled = errors.New("tests of the database need Postgres 15 or newer: " +
	"`apt-get install postgresql` brings it, or set " + Env + " to the DSN of a server's superuser")

// Start starts a server. Text in it sorts by language, as on most servers in production, and not by bytes.
func Start() (*Server, error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	who, err := unprivileged()
	if err != nil {
		return nil, err
	}
	for range 5 { // somebody else may take the port first
		var s *Server
		if s, err = start(bin, who); err == nil {
			return s, nil
		}
	}
	return nil, fmt.Errorf("starting Postgres: %w", err)
}

// Stop stops the server and returns when nothing is left of it.
func (s *Server) Stop() error {
	_ = s.leash.Close() // closing a pipe cannot fail in a way that matters
	return <-s.ended
}

// guard runs the server ($@) in the directory $DIR until the server ends or the standard input does. That is a pipe
// whose other end only the starting process has, so it also ends when that is killed.
const guard = `
exec 3<&0
"$@" </dev/null 3<&- &
server=$!
{ read -r _ <&3; kill -QUIT $server; } &
reader=$!
wait $server
kill $reader
rm -rf "$DIR"
`

func start(bin string, who *syscall.SysProcAttr) (*Server, error) {
	dir, err := os.MkdirTemp(parent(), "countersign-postgres-")
	if err != nil {
		return nil, err
	}
	if err := give(who, dir); err != nil {
		return nil, err
	}
	s, err := startIn(dir, bin, who)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

func startIn(dir, bin string, who *syscall.SysProcAttr) (*Server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	// Others on this machine can reach the port too, hence a password.
	password := rand.Text()
	secret := filepath.Join(dir, "password")
	if err := errors.Join(os.WriteFile(secret, []byte(password), 0o600), give(who, secret)); err != nil {
		return nil, err
	}
	initdb := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "--pgdata="+dir+"/data", "--username=postgres",
		"--pwfile="+secret, "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--locale-provider=icu", "--icu-locale=en",
		"--no-sync", "--no-instructions")
	initdb.Dir, initdb.SysProcAttr = dir, who
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()

	args := []string{"-c", guard, "guard", filepath.Join(bin, "postgres"), "-D", dir + "/data", "-k", dir, "-p", strconv.Itoa(port)}
	for _, setting := range []string{
		"listen_addresses=127.0.0.1", "max_connections=1000", "fsync=off", "synchronous_commit=off", "full_page_writes=off", "max_wal_size=128MB",
	} {
		args = append(args, "-c", setting)
	}
	run := exec.Command("sh", args...)
	run.Dir, run.Stdout, run.Stderr = dir, log, log
	run.Env = append(os.Environ(), "DIR="+dir)
	run.SysProcAttr = &syscall.SysProcAttr{Credential: who.Credential, Setsid: true} // away from our Ctrl-C
	leash, err := run.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := run.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- run.Wait() }()

	s := &Server{
		DSN:   fmt.Sprintf("postgres://postgres:%s@127.0.0.1:%d/postgres?sslmode=disable", password, port),
		leash: leash, ended: ended,
	}
	for {
		conn, err := pgx.Connect(ctx, s.DSN)
		if err == nil {
			return s, conn.Close(ctx)
		}
		select {
		case err := <-ended:
			said, _ := io.ReadAll(io.NewSectionReader(log, 0, 1<<20))
			return nil, errors.Join(fmt.Errorf("postgres ended at once:\n%s", said), err)
		case <-ctx.Done():
			return nil, errors.Join(err, s.Stop())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// binaries returns the directory with initdb and postgres: the one in PATH, else Debian's newest.
func binaries() (string, error) {
	if initdb, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(initdb), nil
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		return "", errors.Join(ErrNotInstalled, err)
	}
	version := func(initdb string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(initdb)))) // a folder of another kind counts as 0
		return n
	}
	newest := slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) })
	return filepath.Dir(newest), nil
}

// unprivileged says as whom Postgres runs: it refuses to run as root.
func unprivileged() (*syscall.SysProcAttr, error) {
	if os.Geteuid() != 0 {
		return &syscall.SysProcAttr{}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil {
			return nil, err
		}
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		if err != nil {
			return nil, err
		}
		return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
	}
	return nil, errors.New("Postgres refuses to run as root, and there is no user postgres or nobody")
}

// parent returns the directory for servers: in memory where there is room, since creating a database writes 300 files
// (measured: 20 ms there, 180 ms on a disk), else the usual temporary directory.
func parent() string {
	const memory, enough = "/dev/shm", 1 << 30
	var room syscall.Statfs_t
	if err := syscall.Statfs(memory, &room); err == nil && room.Bavail*uint64(room.Bsize) >= enough {
		return memory
	}
	return os.TempDir()
}

// give makes a file theirs.
func give(who *syscall.SysProcAttr, path string) error {
	if who.Credential == nil {
		return nil
	}
	return os.Chown(path, int(who.Credential.Uid), int(who.Credential.Gid))
}

// freePort returns a TCP port of the loopback address that nobody listened on a moment ago.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	address, err := netip.ParseAddrPort(l.Addr().String())
	return int(address.Port()), errors.Join(err, l.Close())
}
