package supervisor

import (
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// orders are what a supervisor and its launcher are told in their arguments.
type orders struct {
	more    int // descriptors of the command beyond the first three
	env     bool
	most    Usage
	rlimits []Rlimit
	dir     string // last, since it may hold anything
}

// told is all that stands in the arguments.
type told struct {
	orders

	owner, group string // as in [Command]
	argv         []string
}

// args gives the arguments: ORDERS OWNER GROUP PROGRAM ARGUMENTS...
func (t told) args() []string {
	return append([]string{t.orders.String(), t.owner, t.group}, t.argv...)
}

func parseArgs(args []string) (told, error) {
	if len(args) < 4 {
		return told{}, syscall.EINVAL
	}
	o, err := parseOrders(args[0])
	return told{o, args[1], args[2], args[3:]}, err
}

// files counts the descriptors that follow the control and the beginning.
func (o orders) files() int {
	if o.env {
		return o.more + 1
	}
	return o.more
}

func (o orders) String() string {
	fields := []string{strconv.Itoa(o.more), flag(o.env), strconv.FormatInt(o.most.Memory, 10), strconv.FormatInt(o.most.Tasks, 10)}
	var limits []string
	for _, l := range o.rlimits {
		limits = append(limits, strconv.Itoa(l.Resource)+"="+strconv.FormatUint(l.Max, 10))
	}
	return strings.Join(append(fields, strings.Join(limits, ","), o.dir), ":")
}

func flag(is bool) string {
	if is {
		return "1"
	}
	return "0"
}

func parseOrders(text string) (orders, error) {
	fields := strings.SplitN(text, ":", 6)
	if len(fields) != 6 {
		return orders{}, syscall.EINVAL
	}
	var numbers [4]int64
	for i := range numbers {
		n, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return orders{}, syscall.EINVAL
		}
		numbers[i] = n
	}
	o := orders{
		more: int(numbers[0]), env: numbers[1] == 1,
		most: Usage{Memory: numbers[2], Tasks: numbers[3]}, dir: fields[5],
	}
	for pair := range strings.SplitSeq(fields[4], ",") {
		if pair == "" {
			continue
		}
		name, value, _ := strings.Cut(pair, "=")
		resource, err := strconv.Atoi(name)
		if err != nil {
			return orders{}, syscall.EINVAL
		}
		most, err := strconv.ParseUint(value, 10, 64)
		if err != nil {
			return orders{}, syscall.EINVAL
		}
		o.rlimits = append(o.rlimits, Rlimit{resource, most})
	}
	return o, nil
}

// launch becomes a program in its directory, its cgroup and its limits, with its
// environment. It exists so that the supervisor has nothing of those.
func launch(args []string) {
	const first = 3
	o, err := parseArgs(args)
	begins := first + o.files()
	if err != nil {
		syscall.Exit(127) // the supervisor parsed the same
	}
	for fd := first + o.more; fd <= begins; fd++ {
		syscall.CloseOnExec(fd)
	}
	env := []string{}
	if o.env {
		raw, err := io.ReadAll(os.NewFile(uintptr(first+o.more), "environment"))
		if err != nil {
			fail(begins, syscall.EIO)
		}
		if env = strings.Split(string(raw), "\x00"); len(env) > 0 {
			env = env[:len(env)-1]
		}
	}
	if o.group != "" {
		if err := enter(o.group); err != nil {
			fail(begins, err)
		}
	}
	if err := syscall.Chdir(o.dir); err != nil {
		fail(begins, err)
	}
	for _, l := range o.rlimits {
		// No more than there is: only the privileged may raise a limit.
		var now syscall.Rlimit
		if err := syscall.Getrlimit(l.Resource, &now); err != nil {
			fail(begins, err)
		}
		most := min(l.Max, now.Max)
		if err := syscall.Setrlimit(l.Resource, &syscall.Rlimit{Cur: most, Max: most}); err != nil {
			fail(begins, err)
		}
	}
	fail(begins, syscall.Exec(o.argv[0], o.argv, env)) //nolint:gosec // starting what it is told to is what it is for
}
