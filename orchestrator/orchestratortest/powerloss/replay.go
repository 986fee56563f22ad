package powerloss

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// step is the beginning or the end of a call.
type step struct {
	*call
	leaves bool
}

// stepsOf puts beginnings and ends into the one order in which they happened.
func stepsOf(moments []moment) (steps []step) {
	for _, m := range moments {
		if m.enter {
			steps = append(steps, step{m.call, false})
		}
		if m.leaves {
			steps = append(steps, step{m.call, true})
		}
	}
	return steps
}

// opened is an open file of a process.
type opened struct {
	node    *node // nil: of no interest
	appends bool
}

// underWay is a change whose call has not returned.
type underWay struct {
	file   *file
	change *change
}

// told is what has left the program: what it answered, and what it wrote for others to read.
type told struct {
	sent    map[string]bool // acknowledged sends
	refused map[string]bool // sends to nobody, of which the answer says that they are kept as dead letters
	read    map[string]bool // printed by a wait
	acked   map[string]bool // acknowledged reading
	written map[string]bool // stood in a write to a jsonl file
	backups map[string]bool // backups that were answered, by path

	unsynced map[string]bool // recipients whose jsonl file has not been synced with anything in it
}

// replay follows a recording step by step.
type replay struct {
	disk     *disk
	told     told
	group    map[int]int    // thread -> process
	command  map[int]string // process -> the first word of its command line
	open     map[int]map[int]*opened
	opening  map[*call]string
	changes  map[*call]*underWay
	namings  map[*call]*naming
	syncs    map[*call]covered
	syncing  map[*call]*node
	counted  map[string]int // calls by kind of file, for the report
	ignoring func(s step) bool
}

func newReplay(root string, strict bool, steps []step) (*replay, error) {
	r := &replay{
		disk: newDisk(root, strict), group: map[int]int{}, command: map[int]string{}, open: map[int]map[int]*opened{}, opening: map[*call]string{},
		changes: map[*call]*underWay{}, namings: map[*call]*naming{}, syncs: map[*call]covered{}, syncing: map[*call]*node{},
		counted: map[string]int{},
		told: told{sent: map[string]bool{}, refused: map[string]bool{}, read: map[string]bool{}, acked: map[string]bool{}, written: map[string]bool{},
			backups: map[string]bool{}},
	}
	return r, r.findThreads(steps)
}

// findThreads learns which threads belong to one process and so share descriptors.
func (r *replay) findThreads(steps []step) error {
	parent := map[int]int{}
	for _, s := range steps {
		if s.leaves && slices.Contains([]string{"clone", "clone3"}, s.name) && s.number() > 0 {
			if _, twice := parent[s.number()]; twice {
				return fmt.Errorf("the number %d was given to two threads", s.number())
			}
			if strings.Contains(strings.Join(s.args, ","), "CLONE_THREAD") {
				parent[s.number()] = s.thread
			}
		}
	}
	for _, s := range steps {
		if s.name == "execve" && len(s.args) > 1 {
			if words := strings.SplitN(s.args[1], `"`, 5); len(words) == 5 {
				r.command[s.thread] = words[3]
			}
		}
		top := s.thread
		for parent[top] != 0 {
			top = parent[top]
		}
		r.group[s.thread] = top
		if r.open[top] == nil {
			r.open[top] = map[int]*opened{}
		}
	}
	return nil
}

// fleeting reports whether a file means nothing after a power cut: the index of the WAL is made anew, and sockets die
// with their processes.
func fleeting(name string) bool {
	return strings.HasSuffix(name, "-shm") || strings.Contains(name, "-bell")
}

// inside reports whether a path is one that counts.
func (r *replay) inside(name string) bool {
	return (name == r.disk.root || strings.HasPrefix(name, r.disk.root+"/")) && !fleeting(name)
}

// at finds the open file that an argument speaks of. nil is a file that does not count.
func (r *replay) at(s step, arg string) (*opened, error) {
	fd, name, ok := descriptor(arg)
	if !ok || !r.inside(name) {
		return nil, nil
	}
	o := r.open[r.group[s.thread]][fd]
	if o == nil || o.node == nil {
		return nil, fmt.Errorf("a descriptor of %s that nobody opened", name)
	}
	if !strings.Contains(arg, "(deleted)") && r.disk.memory[name] != o.node {
		return nil, fmt.Errorf("the descriptor of %s is another file's", name)
	}
	return o, nil
}

// pathOf resolves a path of a call ending in -at, or of one without.
func pathOf(folder, text string) (string, error) {
	name, err := unquote(text)
	if err != nil {
		return "", err
	}
	if path.IsAbs(string(name)) {
		return path.Clean(string(name)), nil
	}
	_, base, _ := descriptor(strings.TrimPrefix(folder, "AT_FDCWD"))
	if at := strings.IndexByte(folder, '<'); at >= 0 {
		base = strings.TrimSuffix(folder[at+1:], ">")
	}
	return path.Join(base, string(name)), nil
}

// firstAttempts notes which jsonl files hold nothing for certain.
func (r *replay) firstAttempts() {
	r.told.unsynced = map[string]bool{}
	for i, name := range jsonlFiles {
		n := r.disk.memory[path.Join(r.disk.root, name)]
		r.told.unsynced[recipients[2+i]] = n == nil || len(n.file.durable) == 0
	}
}

// do follows one step.
func (r *replay) do(s step) error {
	var err error
	switch s.name {
	case "openat":
		err = r.doOpen(s, s.args[0], s.args[1], s.args[2])
	case "open":
		err = r.doOpen(s, "", s.args[0], s.args[1])
	case "write", "pwrite64":
		err = r.doWrite(s)
	case "ftruncate", "fallocate":
		err = r.doSize(s)
	case "fsync", "fdatasync":
		err = r.doSync(s)
	case "unlink", "rmdir":
		err = r.doName(s, s.args[0], "")
	case "unlinkat":
		err = r.doNameAt(s, s.args[0], s.args[1], "", "")
	case "rename":
		err = r.doName(s, s.args[0], s.args[1])
	case "renameat", "renameat2":
		err = r.doNameAt(s, s.args[0], s.args[1], s.args[2], s.args[3])
	case "mkdir":
		err = r.doMkdir(s, "", s.args[0])
	case "mkdirat":
		err = r.doMkdir(s, s.args[0], s.args[1])
	case "close":
		if fd, _, ok := descriptor(s.args[0]); ok && s.leaves {
			delete(r.open[r.group[s.thread]], fd)
		}
	case "mmap":
		err = r.doMap(s)
	case "clone", "clone3", "fork", "vfork", "execve", "sync_file_range", "sync", "syncfs":
		// The last three promise nothing that is counted on here.
	default:
		err = r.refuse(s)
	}
	if err != nil {
		return fmt.Errorf("line %d, %s: %w", s.entered, s.name, err)
	}
	return nil
}

// refuse fails for calls that the model does not know, if they touch a file that counts.
func (r *replay) refuse(s step) error {
	for _, arg := range s.args {
		_, name, ok := descriptor(arg)
		if !ok {
			text, err := unquote(arg)
			if err != nil {
				continue
			}
			name = string(text)
		}
		if r.inside(name) {
			return fmt.Errorf("a call that the model does not know, on %s", name)
		}
	}
	return nil
}

func (r *replay) doOpen(s step, folder, name, flags string) error {
	asked, err := pathOf(folder, name)
	if err != nil {
		return err
	}
	if !s.leaves {
		r.opening[s.call] = asked
		return nil
	}
	delete(r.opening, s.call)
	fd := s.number()
	if fd < 0 {
		return nil
	}
	o := &opened{appends: strings.Contains(flags, "O_APPEND")}
	r.open[r.group[s.thread]][fd] = o
	_, found, _ := descriptor(s.result)
	if !r.inside(found) {
		return nil
	}
	if found != asked {
		return fmt.Errorf("%s led to %s", asked, found)
	}
	for _, n := range r.disk.namings {
		if !n.done && (n.old == asked || n.new == asked) {
			return fmt.Errorf("%s was opened while its name changed: the log does not tell which file it is", asked)
		}
	}
	o.node = r.disk.memory[asked]
	if o.node == nil {
		if !strings.Contains(flags, "O_CREAT") {
			return fmt.Errorf("%s is there, and nobody made it", asked)
		}
		o.node = r.disk.make(asked, false)
	}
	if strings.Contains(flags, "O_TRUNC") && len(o.node.file.memory) > 0 {
		c := &change{truncate: true, done: true}
		o.node.file.pending = append(o.node.file.pending, c)
		o.node.file.memory = nil
	}
	return nil
}

func (r *replay) doWrite(s step) error {
	if fd, name, _ := descriptor(s.args[0]); fd == 1 && !r.inside(name) {
		if s.leaves {
			return nil
		}
		data, err := unquote(s.args[1])
		r.told.hear(data)
		return err
	}
	if s.leaves {
		r.written(s)
		return nil
	}
	o, err := r.at(s, s.args[0])
	if o == nil || err != nil {
		return err
	}
	f := o.node.file
	data, err := unquote(s.args[1])
	if err != nil {
		return err
	}
	if fmt.Sprint(len(data)) != s.args[2] {
		return fmt.Errorf("the log has %d bytes of %s", len(data), s.args[2])
	}
	c := &change{at: int64(len(f.memory)), data: data}
	if s.name == "pwrite64" {
		if c.at, err = strconv.ParseInt(s.args[3], 10, 64); err != nil {
			return err
		}
	} else if !o.appends {
		return fmt.Errorf("a write to %s at an unknown place", f.name)
	}
	for _, p := range f.pending {
		if !p.done && (s.name == "write" || overlap(p, c)) {
			return fmt.Errorf("two writes to the same place of %s at the same time", f.name)
		}
	}
	r.begin(s, f, c)
	if strings.HasSuffix(f.name, ".jsonl") {
		for line := range strings.Lines(string(data)) {
			if id := idOf([]byte(line)); id != "" {
				r.told.written[id] = true
			}
		}
	}
	return nil
}

// begin lets a change reach the disk from now on.
func (r *replay) begin(s step, f *file, c *change) {
	f.pending = append(f.pending, c)
	r.changes[s.call] = &underWay{f, c}
	r.counted["write "+kindOf(f.name)]++
	if kindOf(f.name) == "wal" && c.at == 0 {
		r.counted["restart wal"]++
	}
	for _, n := range r.syncing {
		if n.file == f {
			r.counted["write "+kindOf(f.name)+" during a sync"]++
			break
		}
	}
}

// written ends a change: programs see it now.
func (r *replay) written(s step) {
	w := r.changes[s.call]
	if w == nil {
		return
	}
	f, c := w.file, w.change
	delete(r.changes, s.call)
	c.done = true
	n := s.number()
	if n < 0 {
		f.pending = slices.DeleteFunc(f.pending, func(p *change) bool { return p == c })
		return
	}
	if !c.truncate {
		c.data = c.data[:n]
	}
	f.memory = apply(f.memory, c)
}

func (r *replay) doSize(s step) error {
	if s.leaves {
		r.written(s)
		return nil
	}
	o, err := r.at(s, s.args[0])
	if o == nil || err != nil {
		return err
	}
	if s.name == "fallocate" {
		return fmt.Errorf("fallocate of %s is not known to the model", o.node.file.name)
	}
	size, err := strconv.ParseInt(s.args[1], 10, 64)
	if err != nil {
		return err
	}
	r.begin(s, o.node.file, &change{at: size, truncate: true})
	return nil
}

func (r *replay) doSync(s step) error {
	if !s.leaves {
		o, err := r.at(s, s.args[0])
		if o == nil || err != nil || (r.ignoring != nil && r.ignoring(s)) {
			return err
		}
		r.syncs[s.call], r.syncing[s.call] = r.disk.sync(o.node), o.node
		return nil
	}
	n := r.syncing[s.call]
	if n == nil {
		return nil
	}
	if s.number() != 0 {
		return fmt.Errorf("a sync failed: %s", s.result)
	}
	c := r.syncs[s.call]
	delete(r.syncs, s.call)
	delete(r.syncing, s.call)
	if n.file != nil {
		r.counted["sync "+kindOf(n.file.name)]++
	} else {
		r.counted["sync folder"]++
	}
	return r.disk.synced(n, c)
}

func (r *replay) doName(s step, from, to string) error { return r.doNameAt(s, "", from, "", to) }

func (r *replay) doNameAt(s step, fromFolder, from, toFolder, to string) error {
	if s.leaves {
		n := r.namings[s.call]
		if n == nil {
			return nil
		}
		delete(r.namings, s.call)
		if s.number() != 0 {
			r.disk.namings = slices.DeleteFunc(r.disk.namings, func(p *naming) bool { return p == n })
			return nil
		}
		for _, name := range r.opening {
			if name == n.old || name == n.new {
				return fmt.Errorf("%s was opened while its name changed: the log does not tell which file it is", name)
			}
		}
		r.disk.named(n)
		return nil
	}
	var n naming
	var err error
	if n.old, err = pathOf(fromFolder, from); err != nil {
		return err
	}
	if to != "" {
		if n.new, err = pathOf(toFolder, to); err != nil {
			return err
		}
	}
	n.of = r.disk.memory[n.old]
	if n.of == nil || !r.inside(n.old) {
		return nil
	}
	r.namings[s.call] = &n
	r.disk.name(&n)
	r.counted["name"]++
	return nil
}

func (r *replay) doMkdir(s step, folder, name string) error {
	made, err := pathOf(folder, name)
	if err == nil && s.leaves && s.number() == 0 && r.inside(made) {
		r.disk.make(made, true)
	}
	return err
}

func (r *replay) doMap(s step) error {
	if len(s.args) < 5 || !strings.Contains(s.args[2], "PROT_WRITE") || !strings.Contains(s.args[3], "MAP_SHARED") {
		return nil
	}
	if _, name, ok := descriptor(s.args[4]); ok && r.inside(name) {
		return fmt.Errorf("%s is written through memory, which the log does not show", name)
	}
	return nil
}

// kindOf names the sorts of files that a report counts.
func kindOf(name string) string {
	switch {
	case strings.HasSuffix(name, "-wal"):
		return "wal"
	case strings.HasSuffix(name, "-journal"):
		return "journal"
	case strings.HasSuffix(name, ".jsonl"):
		return "jsonl"
	case strings.HasSuffix(name, ".db"):
		return "db"
	}
	return "other"
}

// hear notes what a program answered.
func (t *told) hear(data []byte) {
	for line := range strings.Lines(string(data)) {
		var answer struct {
			Success   bool   `json:"success"`
			Action    string `json:"action"`
			Error     string `json:"error"`
			MessageID string `json:"message_id"`
			File      string `json:"file"`
			Messages  []struct {
				MessageID string `json:"message_id"`
			} `json:"messages"`
		}
		if json.Unmarshal([]byte(line), &answer) != nil {
			continue
		}
		if !answer.Success {
			if answer.Error == "unknown_recipient" {
				t.refused[answer.MessageID] = true
			}
			continue
		}
		switch answer.Action {
		case "send":
			t.sent[answer.MessageID] = true
		case "wait":
			for _, m := range answer.Messages {
				t.read[m.MessageID] = true
			}
		case "acknowledge":
			t.acked[answer.MessageID] = true
		case "backup":
			t.backups[answer.File] = true
		}
	}
}

// idOf returns the message that a line of a jsonl file is of, "" for a line that is no JSON.
func idOf(line []byte) string {
	var l struct {
		MessageID string `json:"message_id"`
	}
	if json.Unmarshal(line, &l) != nil {
		return ""
	}
	return l.MessageID
}
