// Package powerloss proves what a power cut leaves of Mailroom's files. It runs the real program, unmodified, in many
// processes under strace, which puts every call that changes a file or a folder, every sync and every answer into one
// order. Then it cuts the power at any step of that order, as often as one likes: it builds files as the disk may hold
// them at that moment, opens them with the engine, and checks that all that was told still holds. Nothing is assumed
// about how the program makes things durable; only its system calls count.
//
// # The order
//
// strace stops a thread before and after each call, and notes both in the order in which they come. What lies between
// the two stops of a call may happen at any time in between. So
//
//   - a write, a truncation, a change of names may reach the disk as soon as it was called;
//   - a sync covers what had returned when the sync was called, through whichever descriptor and by whichever process it
//     was written, and holds only once the sync has returned. Every sync is held up by a millisecond, so that others
//     write and answer meanwhile;
//   - an answer counts as soon as its write was called, and so does a line of a jsonl file and the name of a file in the
//     agent's folder: somebody may have read it.
//
// Where two calls overlap so that the order matters and the log cannot tell (two writes to one place, a file opened
// while its name changes), the recording is refused. It is also refused when it uses calls that the model does not
// know, when a file is written through shared memory (only the WAL's index is, and that is never kept), and when what
// it leads to is not, byte for byte, what stands in the files at the end: then it has missed something.
//
// # The disk
//
// What a returned sync covered is there. Of everything else any part may be there:
//
//   - A file is made of sectors of 512 bytes. Each sector holds what it held after one of the writes to it since the last
//     sync, or at that sync; which one does not depend on any other sector. So later writes arrive without earlier ones,
//     and writes are torn. Within a sector there is no tear, and no later write without an earlier one: the system writes
//     back what memory holds. (SQLite relies on the first of these by its default, powersafe overwrite.) There is no
//     garbage: what was never written is zeros.
//   - The size is any of those that the file had since the last sync, again whatever the sectors hold.
//   - With Strict, a name that was made, changed or removed is so only once its folder was synced, as POSIX has it; until
//     then each may have happened or not, in order per name. A rename is one change. Without Strict any sync that
//     returns makes all earlier changes of names last, as the journals of ext4 and XFS do. The tests use Strict; what
//     holds there holds for ext4 too.
//
// A seed decides for each cut and each file among: nothing of it, everything, everything up to a moment, any of the
// writes, only the last ones, each sector for itself. A disk that loses what it said it had synced is outside of this.
//
// # The check
//
// The image is opened with router.Open, read, written and delivered from, with a clock that has gone on until all
// leases are over. Then integrity_check must be ok, every send that was answered must be in the table once and created
// once in the trace, every message that a wait printed must be there, no message read that none has printed, every
// acknowledgement kept, every message ever written to a file must be in the table, every message to a file or the
// folder must stand there exactly once, whole, and a backup that was answered must be whole. The one exception is a
// message whose delivery was the first ever to its file: after such a cut it cannot be known whether it arrived, and it
// must have failed saying so.
//
// The proof can fail: the tests drop syncs from the recording, those of one kind of file or of one kind of process, and
// the check must notice.
package powerloss
