// Package powerloss tests which parts of Mailroom's files survive a power cut. It runs the real, unmodified program
// in many processes under strace, which puts every call that changes a file or a folder, every sync and every answer
// into one order. Then it simulates power cuts at any steps of that order. It builds the files as the disk may hold
// them at that moment, opens them with the engine, and checks that every answer still holds. The test makes no
// assumptions about how the program achieves durability; only its system calls count.
//
// # The order
//
// strace stops a thread before and after each call, and records both stops in order. A call may take effect at any
// time between its two stops. Therefore:
//
//   - A write, a truncation or a change of names may reach the disk as soon as it was called.
//   - A sync covers the changes that had returned when the sync was called, through any descriptor and from any
//     process. The changes are durable only when the sync has returned. Every sync is delayed by a millisecond, so
//     that other threads write and answer in the meantime.
//   - An answer counts as soon as its write was called. So do a line of a jsonl file and the name of a file in the
//     agent's folder, because another program may have read them.
//
// The recording is rejected if two calls overlap so that their order matters and the log does not show it (two writes
// to one place, a file opened while its name changes). It is also rejected if it uses calls that the model does not
// support, or if a file is written through shared memory, except the WAL's index, which is never kept. Finally, it is
// rejected if the state it leads to differs in any byte from the files at the end: then the recording has missed a
// change.
//
// # The disk
//
// Changes covered by a returned sync are on the disk. Any part of the other changes may be there:
//
//   - A file consists of sectors of 512 bytes. Each sector holds its content after one of the writes to it since the
//     last sync, or at that sync, independently of all other sectors. So later writes may arrive without earlier
//     ones, and writes may be torn. Within a sector, no write is torn, and no later write arrives without an earlier
//     one, because the system writes back the content of memory. (SQLite relies on the first of these by its default,
//     powersafe overwrite.) There is no garbage: sectors that were never written are zeros.
//   - The size is any of the sizes of the file since the last sync, again independently of the sectors.
//   - With Strict, the creation, change or removal of a name is durable only after a sync of its folder, as in POSIX.
//     Until then each may have happened or not, in order per name. A rename is one change. Without Strict, any sync
//     that returns makes all earlier changes of names durable, as the journals of ext4 and XFS do. The tests use
//     Strict; a program that passes with it is also safe on ext4.
//
// For each cut and each file, a seed selects one of these: none of the changes, all, all up to a moment, any of the
// writes, only the last ones, or each sector independently. A disk that loses data it reported as synced is not
// modelled.
//
// # The check
//
// The image is opened with router.Open, read, written and delivered from, with a clock set past the end of all
// leases. Then the following must hold:
//
//   - integrity_check is ok.
//   - Every answered send is in the table once, and created once in the trace.
//   - Every message that a wait printed exists, and no message is marked as read that no wait printed.
//   - Every acknowledgement is kept.
//   - Every message ever written to a file is in the table. Every message to a file or the folder is there exactly
//     once and complete.
//   - Every answered backup is intact.
//
// The one exception is a message whose delivery was the first ever to its file. After such a cut, it is impossible to
// determine whether the message arrived, so it must have failed with that reason.
//
// The check can fail: the tests drop syncs from the recording, those of one kind of file or of one kind of process,
// and the check must detect that.
package powerloss
