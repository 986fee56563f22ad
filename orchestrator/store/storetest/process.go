package storetest

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"mailroom/orchestrator/orchestratortest/helper"
	"mailroom/orchestrator/store"
)

// helperPrefix begins the names of what other processes do for a test.
const helperPrefix = "storetest "

// Helpers are what other processes do for the tests. TestHelperProcess of each package that calls Exercise hands them
// to helper.Run.
func Helpers(open Open) map[string]func(address string, in *bufio.Scanner) {
	list := map[string]func(address string, in *bufio.Scanner){}
	for name, does := range map[string]func(st store.Store, in *bufio.Scanner){
		"write": helpWrite, "hold": helpHold, "listen": helpListen, "lease": helpLease,
	} {
		list[helperPrefix+name] = func(address string, in *bufio.Scanner) {
			st, err := open(usual(Options{}, address))
			if err != nil {
				fmt.Println("opening:", err)
				os.Exit(1)
			}
			does(st, in)
		}
	}
	return list
}

// helpWrite adds a row for each line, and tells when that was answered.
func helpWrite(st store.Store, in *bufio.Scanner) {
	for in.Scan() {
		fmt.Println("wrote", in.Text(), write(st, adds(in.Text())))
	}
}

// helpHold adds two rows in one transaction, and goes on after the first when it hears a line.
func helpHold(st store.Store, in *bufio.Scanner) {
	err := write(st, &work{run: func(t *store.Transaction) error {
		if err := add(t, "held 1"); err != nil {
			return err
		}
		fmt.Println("inside")
		in.Scan()
		return add(t, "held 2")
	}})
	fmt.Println("wrote", err)
	in.Scan()
}

// helpListen listens for rings for agent coder. It waits for one that names coder when it hears "named", and for one
// after which it finds a row when it hears "row".
func helpListen(st store.Store, in *bufio.Scanner) {
	rings, stop, err := st.Bell().Listen(context.Background(), "coder")
	defer stop()
	fmt.Println("listening", err)
	for in.Scan() {
		what := in.Text()
		is := func(named bool) bool { return named }
		if what == "row" {
			fmt.Println("row: waiting")
			is = func(bool) bool { return rowsSeen(st) == 1 }
		}
		fmt.Println(what+":", heard(rings, is))
	}
}

// heard waits for a ring of a certain kind.
func heard(rings <-chan bool, is func(named bool) bool) string {
	late := time.After(patience)
	for {
		select {
		case named := <-rings:
			if is(named) {
				return "heard"
			}
		case <-late:
			return "not heard"
		}
	}
}

func rowsSeen(st store.Store) (n int64) {
	err := st.Read(context.Background(), func(c *store.Conn) (err error) {
		n, err = c.Number(rowCount)
		return err
	})
	if err != nil {
		return -1
	}
	return n
}

// helpLease makes the token of a lease, and lives on.
func helpLease(st store.Store, in *bufio.Scanner) {
	fmt.Println(st.Token("id"))
	in.Scan()
}

// Writer starts a process that opens a store, adds a row for each line that it is told, and says when that was
// answered.
func Writer(t testing.TB, address string) *helper.Process {
	return helper.Start(t, helperPrefix+"write", address)
}

// Holder starts a process that opens a store, prints the token of a lease, and lives until it is killed.
func Holder(t testing.TB, address string) *helper.Process {
	return helper.Start(t, helperPrefix+"lease", address)
}
