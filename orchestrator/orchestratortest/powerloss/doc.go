// Package powerloss proves what a power cut leaves. It records, with strace, every system call by which the real program
// changes files and answers, cuts the power at many moments of that recording, builds what the disk may hold then, and
// opens it with the engine.
package powerloss
