package powerloss

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// This file contains the effects of single calls on the disk.

func (r *replay) doWrite(s step) error {
	if fd, name, _ := descriptor(s.args[0]); fd == 1 && !r.inside(name) {
		if s.leaves || strings.HasPrefix(s.args[1], "0x") {
			return nil // strace could not read the output of a process that was just killed: nothing was written
		}
		data, err := unquote(s.args[1])
		if r.muted == nil || !r.muted(s) {
			r.told.hear(data)
		}
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

// begin records a change that may reach the disk from now on.
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

// written completes a change: programs see it from now on.
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
		if o == nil || err != nil {
			return err
		}
		if r.ignoring != nil && r.ignoring(s) {
			r.ignored++
			return nil
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
	if kindOf(n.new) == "letter" {
		r.told.written[strings.TrimSuffix(path.Base(n.new), ".json")] = true
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

// kindOf returns the kind of a file for the report.
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
	case strings.Contains(name, "/"+letters+"/.mailroom/"):
		return "staged"
	case strings.HasSuffix(name, "/"+letters+"/.mailroom"):
		return "staging"
	case strings.Contains(name, "/"+letters+"/") && strings.HasSuffix(name, ".json"):
		return "letter"
	}
	return "other"
}
