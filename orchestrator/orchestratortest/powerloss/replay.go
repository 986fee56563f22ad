package powerloss

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// opened is an open file of a process.
type opened struct {
	node    *node // nil if the file does not count
	appends bool
}

// underWay is a change whose call has not returned.
type underWay struct {
	file   *file
	change *change
}

// replay follows a recording step by step.
type replay struct {
	disk     *disk
	told     told
	group    map[int]int    // the process of each thread
	command  map[int]string // the first argument of each process
	open     map[int]map[int]*opened
	opening  map[*call]string
	changes  map[*call]*underWay
	namings  map[*call]*naming
	syncs    map[*call]covered
	syncing  map[*call]*node
	counted  map[string]int // calls by kind of file, for the report
	ignoring func(s step) bool
	muted    func(s step) bool // reports whether an answer counts as not written yet
	ignored  int               // the number of syncs that were dropped so far
}

func newReplay(root string, strict bool, steps []step) (*replay, error) {
	r := &replay{
		disk: newDisk(root, strict), group: map[int]int{}, command: map[int]string{}, open: map[int]map[int]*opened{},
		opening: map[*call]string{},
		changes: map[*call]*underWay{}, namings: map[*call]*naming{}, syncs: map[*call]covered{},
		syncing: map[*call]*node{},
		counted: map[string]int{},
		told:    newTold(),
	}
	return r, r.findThreads(steps)
}

// findThreads finds the threads that belong to the same process and therefore share descriptors.
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

// fleeting reports whether a file is irrelevant after a power failure. The index of the WAL is created again, and
// sockets are unusable when their processes have ended.
func fleeting(name string) bool {
	return strings.HasSuffix(name, "-shm") || strings.Contains(name, "-bell")
}

// inside reports whether the file with a path counts.
func (r *replay) inside(name string) bool {
	return (name == r.disk.root || strings.HasPrefix(name, r.disk.root+"/")) && !fleeting(name)
}

// at returns the open file of an argument, or nil if the file does not count.
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

// pathOf resolves a path argument of a call, relative to a folder if the name of the call ends in -at.
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

// firstAttempts records the recipients whose jsonl files may be empty on the disk.
func (r *replay) firstAttempts() {
	r.told.unsynced = map[string]bool{}
	for i, name := range jsonlFiles {
		n := r.disk.memory[path.Join(r.disk.root, name)]
		r.told.unsynced[recipients[2+i]] = n == nil || len(n.file.durable) == 0
	}
}

// died reports whether a call had no effect because its process was about to end: the call never returned, and
// neither strace nor the kernel could read the memory of its arguments.
func (c *call) died() bool {
	return c.result == "" && slices.ContainsFunc(c.args, func(arg string) bool { return strings.HasPrefix(arg, "0x") })
}

// do applies one step to the model.
func (r *replay) do(s step) error {
	if s.died() {
		return nil
	}
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
		// Another thread may get the same number before the end of the call is logged.
		if fd, _, ok := descriptor(s.args[0]); ok && !s.leaves {
			delete(r.open[r.group[s.thread]], fd)
		}
	case "mmap":
		err = r.doMap(s)
	case "clone", "clone3", "fork", "vfork", "execve", "sync_file_range", "sync", "syncfs":
		// The model ignores the effects of the last three calls.
	default:
		err = r.refuse(s)
	}
	if err != nil {
		return fmt.Errorf("line %d, %s: %w", s.line, s.name, err)
	}
	return nil
}

// refuse returns an error if a call that the model does not support uses a file that counts.
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
