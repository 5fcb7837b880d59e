// Package stager brings the inputs of jobs to this peer, once for all tasks of a job that run here,
// and puts them into each task's folder.
//
//	Stage ─► fetched into the store, from several peers ─► pinned ─► copied once ─► here
//	              │ nobody has it: asked again, sooner when somebody comes back
//	              └ no room: said, and then not tried again for a while
//	Place ─► folders made, files linked from the copy (or written), links last
//
// What a task finds never is the store's own file: that is what other tasks, other jobs and other
// peers are given. It is a name of a copy that nobody may write to, and that all tasks of this peer
// share. A task of the same user can write to it all the same, if it insists; so a copy is looked
// at before each use, and made anew from the store if it was touched. Where that is not enough –
// the superuser may write to everything, and a job may want files that can be written to – a task
// has files of its own.
//
// What is fetched stays pinned until the job is over, or forgotten; copies go with it. Until then
// it is not held to the quota, only to the disk: a peer that keeps nothing for others runs tasks
// with inputs all the same. After that it makes room when room is needed.
//
// Bounds: a few jobs are brought at once, the others wait; of each file its name and what its copy
// looked like are in memory. Whatever names a tree has, nothing outside of a task's folder is
// touched (package disk).
package stager
