package powerloss

import (
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
)

// sector is the size of the unit that a disk writes completely or not at all.
const sector = 512

// change is a write to a file, or a change of its size, that no sync covers yet.
type change struct {
	at       int64
	data     []byte
	truncate bool // the size becomes at
	done     bool // the call has returned
}

// file is one file, regardless of its names.
type file struct {
	name    string // the name at its creation, for reports
	durable []byte // the content that is certainly on the disk
	memory  []byte // the content that a reading program gets
	pending []*change
}

// apply applies a change to an image of the file and returns the image.
func apply(image []byte, c *change) []byte {
	if c.truncate {
		return resized(image, c.at)
	}
	if end := c.at + int64(len(c.data)); end > int64(len(image)) {
		image = resized(image, end)
	}
	copy(image[c.at:], c.data)
	return image
}

func resized(image []byte, size int64) []byte {
	old := int64(len(image))
	if size <= old {
		return image[:size]
	}
	image = slices.Grow(image, int(size-old))[:size]
	clear(image[old:])
	return image
}

// settle makes the changes durable that a sync covers. If an earlier change that is not covered overlaps with a
// covered one, their order is unknown and settle returns an error.
func (f *file) settle(covered map[*change]bool) error {
	var left []*change
	for _, c := range f.pending {
		if !covered[c] {
			left = append(left, c)
			continue
		}
		for _, l := range left {
			if overlap(l, c) {
				return fmt.Errorf("two writes to the same place of %s at the same time", f.name)
			}
		}
		f.durable = apply(f.durable, c)
	}
	f.pending = left
	return nil
}

func overlap(a, b *change) bool {
	if a.truncate || b.truncate {
		return true
	}
	return a.at/sector <= (b.at+int64(len(b.data))-1)/sector && b.at/sector <= (a.at+int64(len(a.data))-1)/sector
}

// naming is a change of folders that no sync covers yet: the entry old is removed, and the entry new is added.
type naming struct {
	old, new string
	of       *node
	done     bool
}

// node is a file or a folder.
type node struct {
	file   *file // nil for a folder
	folder string
}

// disk holds the state that programs see, and the state that is certainly on the disk. Names are absolute paths below
// root.
type disk struct {
	root    string
	strict  bool             // names are durable only when their folder is synced
	memory  map[string]*node // by path
	durable map[string]*node
	namings []*naming
	files   []*file
}

func newDisk(root string, strict bool) *disk {
	top := &node{folder: root}
	return &disk{root: root, strict: strict, memory: map[string]*node{root: top}, durable: map[string]*node{root: top}}
}

// make creates a file or a folder with a name.
func (d *disk) make(name string, folder bool) *node {
	n := &node{folder: name}
	if !folder {
		n = &node{file: &file{name: name}}
		d.files = append(d.files, n.file)
	}
	d.name(&naming{new: name, of: n, done: true})
	d.memory[name] = n
	return n
}

// name records a change of names that may reach the disk from now on.
func (d *disk) name(n *naming) { d.namings = append(d.namings, n) }

// named makes a change of names visible to programs.
func (d *disk) named(n *naming) {
	n.done = true
	if n.old != "" {
		delete(d.memory, n.old)
	}
	if n.new != "" {
		d.memory[n.new] = n.of
	}
}

// covered holds the changes that a sync makes durable when it returns.
type covered struct {
	changes map[*change]bool
	namings map[*naming]bool
}

// sync returns what a sync of a node covers if it is called now.
func (d *disk) sync(n *node) covered {
	c := covered{changes: map[*change]bool{}, namings: map[*naming]bool{}}
	if n.file != nil {
		for _, p := range n.file.pending {
			c.changes[p] = p.done
		}
	}
	for _, p := range d.namings {
		here := n.file == nil && (path.Dir(p.old) == n.folder || path.Dir(p.new) == n.folder)
		c.namings[p] = p.done && (here || !d.strict)
	}
	return c
}

// synced makes the changes durable that a sync covered.
func (d *disk) synced(n *node, c covered) error {
	if n.file != nil {
		if err := n.file.settle(c.changes); err != nil {
			return err
		}
	}
	var left []*naming
	for _, p := range d.namings {
		if c.namings[p] {
			rename(d.durable, p)
		} else {
			left = append(left, p)
		}
	}
	d.namings = left
	return nil
}

func rename(names map[string]*node, p *naming) {
	if p.old != "" {
		delete(names, p.old)
	}
	if p.new != "" {
		names[p.new] = p.of
	}
}

// crash returns a possible content of the disk after a power failure at this moment. The map holds the content of
// every file by its path, and nil for a folder.
func (d *disk) crash(r *rand.Rand) map[string][]byte {
	names := map[string]*node{}
	for name, n := range d.durable {
		names[name] = n
	}
	f := pick(r)
	blocked := map[string]bool{}
	for i, p := range d.namings {
		if blocked[p.old] || blocked[p.new] || !f.namingArrives(r, i, len(d.namings)) {
			blocked[p.old], blocked[p.new] = p.old != "", p.new != ""
			continue
		}
		rename(names, p)
	}
	image := map[string][]byte{}
	for name, n := range names {
		if !d.reachable(names, name) {
			continue
		}
		if n.file == nil {
			image[name] = nil
			continue
		}
		image[name] = append([]byte{}, n.file.crash(r, pick(r))...) // never nil
	}
	return image
}

// reachable reports whether all folders above a name exist.
func (d *disk) reachable(names map[string]*node, name string) bool {
	for name != d.root {
		name = path.Dir(name)
		if names[name] == nil || len(name) < len(d.root) {
			return false
		}
	}
	return true
}
