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

// helperPrefix is the prefix of the names of the functions that other processes run for a test.
const helperPrefix = "storetest "

// Helpers returns the functions that other processes run for the tests. TestHelperProcess of each package that calls
// Exercise passes them to helper.Run.
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

// helpWrite adds a row for each input line and prints a line after each write.
func helpWrite(st store.Store, in *bufio.Scanner) {
	for in.Scan() {
		fmt.Println("wrote", in.Text(), write(st, adds(in.Text())))
	}
}

// helpHold adds two rows in one transaction. After the first row it waits for an input line.
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

// helpListen listens for rings for the agent coder. The input "named" makes it wait for a ring that names coder, and
// the input "row" for a ring after which it finds a row.
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

// heard waits for a ring for which is returns true.
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

// helpLease prints a lease token and waits for an input line.
func helpLease(st store.Store, in *bufio.Scanner) {
	fmt.Println(st.Token("id"))
	in.Scan()
}

// Writer starts a process that opens a store, adds a row for each input line and prints a line after each write.
func Writer(t testing.TB, address string) *helper.Process {
	return helper.Start(t, helperPrefix+"write", address)
}

// Holder starts a process that opens a store, prints a lease token and runs until it is killed.
func Holder(t testing.TB, address string) *helper.Process {
	return helper.Start(t, helperPrefix+"lease", address)
}
