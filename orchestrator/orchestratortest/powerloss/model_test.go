package powerloss

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestParseLog parses a log in which threads interrupt each other, write all possible bytes and end during calls.
func TestParseLog(t *testing.T) {
	t.Parallel()
	log := strings.Join([]string{
		`7 openat(AT_FDCWD</w>, "a (1), b", O_RDWR|O_CREAT, 0600) = 3</r/a (1), b>`,
		`7 pwrite64(3</r/a>, "\0\1x\"\\\n\377, 0) = 1", 12, 4096 <unfinished ...>`,
		`8 fdatasync(4</r/a> <unfinished ...>`,
		`7 <... pwrite64 resumed>)           = 12`,
		`9 --- SIGURG {si_signo=SIGURG, si_code=SI_TKILL} ---`,
		`8 <... fdatasync resumed>)          = 0 (DELAYED)`,
		`9 clone3({flags=CLONE_VM|CLONE_THREAD, stack=0x7f} <unfinished ...>`,
		`9 <... clone3 resumed> => {parent_tid=[11]}, 88) = 11`,
		`11 mmap(NULL, 8392704, PROT_NONE, MAP_PRIVATE, -1, 0 <detached ...>`,
		`9 write(1<pipe:[5]>, "x", 1 <unfinished ...>`,
		`9 <... ??? resumed>)                = ?`,
		`9 +++ exited with 0 +++`,
	}, "\n")
	steps, err := parseLog([]byte(log))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range steps {
		what := s.name + " begins"
		if s.leaves {
			what = s.name + " ends " + s.result
		}
		got = append(got, what)
	}
	want := "openat begins|openat ends 3</r/a (1), b>|pwrite64 begins|fdatasync begins|pwrite64 ends 12|fdatasync ends 0|" +
		"clone3 begins|clone3 ends 11|mmap begins|write begins"
	if strings.Join(got, "|") != want {
		t.Errorf("steps:\n%s\nwant\n%s", strings.Join(got, "|"), want)
	}
	data, err := unquote(steps[2].args[1])
	if err != nil || string(data) != "\x00\x01x\"\\\n\xff, 0) = 1" {
		t.Errorf("data %q, %v", data, err)
	}
	for _, bad := range []string{`7 write(1, "x", 1`, `7 <... write resumed>) = 1`, `write(1, "x", 1) = 1`,
		`7 write(1, "x, 1) = 1`} {
		if _, err := parseLog([]byte(bad)); err == nil {
			t.Errorf("%s was read", bad)
		}
	}
	if _, err := unquote(`"abc"...`); err == nil {
		t.Error("a text that was cut short was taken")
	}
}

// follow replays a log whose files are in /r.
func follow(t *testing.T, strict bool, lines ...string) *replay {
	t.Helper()
	steps, err := parseLog([]byte(strings.Join(lines, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	r, err := newReplay("/r", strict, steps)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range steps {
		if err := r.do(s); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// images returns the possible contents of a file on the disk, with "-" for a missing file.
func images(r *replay, name string) map[string]bool {
	found := map[string]bool{}
	for seed := range uint64(2000) {
		image := r.disk.crash(rand.New(rand.NewPCG(seed, 0)))
		content, there := image[name]
		if !there {
			content = []byte("-")
		}
		found[string(content)] = true
	}
	return found
}

const (
	thread2  = `1 clone(child_stack=0x7f, flags=CLONE_VM|CLONE_THREAD) = 2`
	opened3  = `1 openat(AT_FDCWD</r>, "/r/f", O_RDWR|O_CREAT, 0600) = 3</r/f>`
	openedUp = `1 openat(AT_FDCWD</r>, "/r", O_RDONLY) = 4</r>`
	syncedUp = `1 fsync(4</r>) = 0`
)

func TestSyncCoversWhatHadReturned(t *testing.T) {
	t.Parallel()
	r := follow(t, true, thread2, opened3, openedUp, syncedUp,
		`1 pwrite64(3</r/f>, "aa", 2, 0) = 2`,
		`2 pwrite64(3</r/f>, "bb", 2, 1024 <unfinished ...>`,
		`1 fdatasync(3</r/f>) = 0`,
		`2 <... pwrite64 resumed>) = 2`,
	)
	for image := range images(r, "/r/f") {
		if !strings.HasPrefix(image, "aa") {
			t.Errorf("what was synced is not there: %q", image)
		}
	}
	if found := images(r, "/r/f"); !found["aa"] || !found["aa"+strings.Repeat("\x00", 1022)+"bb"] {
		t.Error("the second write must be free to be there or not")
	}

	r = follow(t, true, opened3, openedUp, syncedUp,
		`1 pwrite64(3</r/f>, "aa", 2, 0) = 2`,
		`1 fdatasync(3</r/f> <unfinished ...>`,
	)
	if found := images(r, "/r/f"); !found[""] {
		t.Error("a sync that has not returned counts")
	}
}

func TestWritesAreTornAndReordered(t *testing.T) {
	t.Parallel()
	old, first, second := strings.Repeat("o", 1024), strings.Repeat("1", 1024), strings.Repeat("2", 1024)
	r := follow(t, true, opened3, openedUp, syncedUp,
		`1 pwrite64(3</r/f>, "`+old+`", 1024, 0) = 1024`,
		`1 fsync(3</r/f>) = 0`,
		`1 pwrite64(3</r/f>, "`+first+`", 1024, 0) = 1024`,
		`1 pwrite64(3</r/f>, "`+second+`", 1024, 512) = 1024`,
	)
	kinds := map[string]bool{}
	for image := range images(r, "/r/f") {
		sectors := ""
		for at := 0; at < len(image); at += sector {
			part := image[at:min(at+sector, len(image))]
			if strings.Trim(part, part[:1]) != "" {
				t.Fatalf("a sector is torn: %q", part)
			}
			sectors += part[:1]
		}
		kinds[sectors] = true
	}
	for _, want := range []string{"oo", "11", "12", "1o", "o1", "o2", "o22", "oo2", "122", "12\x00", "11\x00"} {
		if !kinds[want] {
			t.Errorf("never %q; only %v", want, kinds)
		}
	}
	for _, never := range []string{"2", "22", "o2o"} {
		if kinds[never] {
			t.Errorf("%q came up", never)
		}
	}
}

func TestNamesLastWithTheirFolder(t *testing.T) {
	t.Parallel()
	lines := []string{opened3, `1 pwrite64(3</r/f>, "aa", 2, 0) = 2`, `1 fsync(3</r/f>) = 0`}
	if found := images(follow(t, true, lines...), "/r/f"); !found["-"] || !found["aa"] {
		t.Errorf("strict: %v", found)
	}
	if found := images(follow(t, false, lines...), "/r/f"); found["-"] || !found["aa"] {
		t.Errorf("as on ext4: %v", found)
	}
	lines = append(lines, openedUp, syncedUp, `1 unlink("/r/f") = 0`,
		`1 openat(AT_FDCWD</r>, "/r/f", O_RDWR|O_CREAT, 0600) = 5</r/f>`)
	if found := images(follow(t, true, lines...), "/r/f"); !found["-"] || !found["aa"] || !found[""] {
		t.Errorf("removed and made anew: %v", found)
	}
	lines = append(lines, `1 rename("/r/f", "/r/g") = 0`)
	for seed := range uint64(500) {
		image := follow(t, true, lines...).disk.crash(rand.New(rand.NewPCG(seed, 0)))
		if g, there := image["/r/g"]; there && !bytes.Equal(g, nil) {
			t.Errorf("the renamed file holds %q", g)
		}
	}
	inFolder := []string{`1 mkdir("/r/d", 0700) = 0`,
		`1 openat(AT_FDCWD</r>, "/r/d/f", O_RDWR|O_CREAT, 0600) = 3</r/d/f>`,
		`1 openat(AT_FDCWD</r>, "/r/d", O_RDONLY) = 4</r/d>`, `1 fsync(4</r/d>) = 0`}
	if found := images(follow(t, true, inFolder...), "/r/d/f"); !found["-"] {
		t.Error("a file cannot be found below a folder that nobody synced into the one above")
	}
}

// TestUnclearRecordingsAreRefused checks that a recording that the model cannot interpret is refused.
func TestUnclearRecordingsAreRefused(t *testing.T) {
	t.Parallel()
	for want, lines := range map[string][]string{
		"written through memory": {opened3,
			`1 mmap(NULL, 4096, PROT_READ|PROT_WRITE, MAP_SHARED, 3</r/f>, 0) = 0x7f`},
		"nobody opened":          {`1 pwrite64(3</r/f>, "aa", 2, 0) = 2`},
		"another file's":         {opened3, `1 unlink("/r/f") = 0`, `1 pwrite64(3</r/f>, "aa", 2, 0) = 2`},
		"does not know, on /r/f": {opened3, `1 dup(3</r/f>) = 5</r/f>`},
		"does not know, on /r/g": {`1 truncate("/r/g", 1) = 0`},
		"nobody made it":         {`1 openat(AT_FDCWD</r>, "/r/f", O_RDWR) = 3</r/f>`},
		"at an unknown place":    {opened3, `1 write(3</r/f>, "aa", 2) = 2`},
		"has 2 bytes of 3":       {opened3, `1 pwrite64(3</r/f>, "aa", 3, 0) = 3`},
		"a sync failed":          {opened3, `1 fsync(3</r/f>) = -1 EIO (Input/output error)`},
		"writes to the same place": {thread2, opened3, `1 pwrite64(3</r/f>, "aa", 2, 0 <unfinished ...>`,
			`2 pwrite64(3</r/f>, "bb", 2, 8) = 2`},
		"does not tell which file": {thread2, opened3, `1 unlink("/r/f" <unfinished ...>`,
			`2 openat(AT_FDCWD</r>, "/r/f", O_RDWR) = 3</r/f>`},
		"not tell which file it is": {thread2, opened3, `2 openat(AT_FDCWD</r>, "/r/f", O_RDWR <unfinished ...>`,
			`1 unlink("/r/f") = 0`},
		"was given to two threads":     {thread2, thread2},
		"/r/f led to /r/g":             {`1 openat(AT_FDCWD</r>, "/r/f", O_RDWR) = 3</r/g>`},
		"call that the model does not": {opened3, `1 copy_file_range(3</r/f>, NULL, 3</r/f>, NULL, 10, 0) = 10`},
	} {
		steps, err := parseLog([]byte(strings.Join(lines, "\n")))
		if err != nil {
			t.Fatal(err)
		}
		r, err := newReplay("/r", true, steps)
		for i := 0; i < len(steps) && err == nil; i++ {
			err = r.do(steps[i])
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
}
