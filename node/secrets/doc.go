// Package secrets brings the secrets of jobs from whoever gave them to the tasks that read them,
// and to nobody else.
//
//	values ──Seal──► Job.Secrets ──ledger──► Stage ─ sealed to this peer? ─ yes ─► here
//	 (at the peer that is asked)                │ no                              ▲
//	                                            └──Protocol──► the peer that sealed them: seals again
//	Values ─► what the process executor writes into the task's folder of secrets
//
// A job's secrets are sealed when it is submitted, to the peers that may run it as far as is known
// then. They stay as they are in the job, so that its order covers them. A peer that is not among
// those asks the one that did it, over a stream that shows who asks; that looks at whether the
// ledger gives the asker the task, and seals the same to it alone. Until that comes the task waits
// and says for whom.
//
// Whom secrets are sealed to, and who is given them later, an Audience tells: members with the role
// worker that fit the job, by what this peer knows itself.
//
// Who opens what came with a job compares what is in it – cluster, job, who gave it – with the job:
// sealed bytes can be copied into another job by anybody, and are of no use there.
//
// Bounds: maxCopies sealed copies are kept in memory; one request per job is under way. Nothing is
// written to disk, and values are in memory only while a task is being prepared.
package secrets
