// Package powerloss checks which data in Mailroom's files survives a power failure. It runs the real program,
// unmodified, in many processes under strace, which records every system call that changes a file or a folder, every
// sync and every answer in one order. Then the package simulates a power failure at any step of that order, as often
// as required: it builds files as the disk may contain them at that moment, opens them with the engine, and checks
// that everything that the program reported is still true. The package makes no assumptions about how the program
// makes data durable; only the system calls count.
//
// # The order
//
// strace stops a thread before and after each call, and records both stops in the order in which they occur. The
// effect of a call may happen at any time between its two stops. Therefore:
//
//   - A write, a truncation or a change of names may reach the disk as soon as it was called.
//   - A sync covers the writes that had returned when the sync was called, regardless of the descriptor and the
//     process that wrote. The sync is complete only when it has returned. Every sync is delayed by a millisecond, so
//     that other processes write and answer in the meantime.
//   - An answer counts as soon as its write was called, because another program may have read it. The same applies to
//     a line of a jsonl file and to the name of a file in the agent's folder.
//
// A recording is refused in these cases:
//
//   - Two calls overlap in such a way that their order matters, and the log does not contain it. Examples are two
//     writes to the same place, and a file that is opened while its name changes.
//   - The recording contains calls that the model does not support.
//   - A file is written through shared memory. The only exception is the index of the WAL, which is never kept.
//   - The result of the recording differs in any byte from the files at the end, because then the recording missed
//     something.
//
// # The disk
//
// Data that a returned sync covered is on the disk. Any part of all other data may be on the disk:
//
//   - A file consists of sectors of 512 bytes. Each sector has its content after one of the writes to it since the
//     last sync, or its content at that sync, independent of any other sector. So later writes may arrive without
//     earlier ones, and a write may arrive in part. A sector is never torn, and never has a later write without an
//     earlier one, because the system writes back the content of memory. (By default, SQLite relies on untorn
//     sectors: powersafe overwrite.) There is no garbage: bytes that were never written are zero.
//   - The size is any of the sizes of the file since the last sync, independent of the sectors.
//   - With Strict, a name that was created, changed or removed is durable only when its folder has been synced, as
//     POSIX specifies. Until then, each change may have happened or not, in order for each name. A rename is one
//     change. Without Strict, any sync that returns makes all earlier changes of names durable, as the journals of
//     ext4 and XFS do. The tests use Strict; a guarantee that holds with Strict also holds on ext4.
//
// For each power failure and each file, a seed chooses one of: no writes, all writes, all writes up to a moment, any
// of the writes, only the last writes, or each sector independently. A disk that loses data after it reported a sync
// is outside this model.
//
// # The check
//
// The check opens the image with router.Open, and reads, writes and delivers, with a clock advanced until all leases
// have expired. It then requires:
//
//   - integrity_check returns ok.
//   - Every acknowledged send is in the table once, and has one created event in the trace.
//   - Every message that a wait printed is in the table.
//   - No message is marked as read unless a wait printed it.
//   - Every acknowledgement is kept.
//   - Every message that was ever written to a file is in the table.
//   - Every message to a file or to the folder is there exactly once, and complete.
//   - Every backup that was reported is complete.
//
// There is one exception. If the delivery of a message was the first delivery ever to its file, the engine cannot
// find out after such a power failure whether the message arrived. The message must have failed, with that reason.
//
// The check can fail: the tests drop syncs from the recording, either of one kind of file or of one kind of process,
// and the check must detect that.
package powerloss
