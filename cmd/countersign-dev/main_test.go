package main

import (
	"net"
	"testing"
)

func TestAnAddressThatIsTakenIsSaidWithWhatToDo(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	address := taken.Addr().String()
	_, err = listen("API", address)
	want := "the API cannot listen on " + address + ": another process does; countersign-dev --help says how to give other addresses"
	if err == nil || err.Error() != want {
		t.Errorf("%v, not %s", err, want)
	}
}
