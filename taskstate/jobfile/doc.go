// Package jobfile turns what a person wrote into a Job: it reads job files, fills in defaults, and
// checks any job, from a file, from flags or from the API.
//
//   - Parse reads the strict YAML of a job file. What it does not understand it refuses, with file,
//     line, column, what is allowed and the nearest right word; what the design promises but nobody
//     has built yet it refuses by name. Nothing is ever ignored. Line ends are all the same,
//     whatever system wrote the file.
//   - Defaults is the one place where defaults live, for files and for flags.
//   - Validate is the one place where limits live, and where words are refused that make no sense
//     together. A peer calls it on every job that arrives, whatever its sender.
//   - ParseSize, ParseDuration and ParseCPUs read the same spellings on the command line as in
//     files; Lines the same lists.
//
// The package reads no file but the one each_line names and the table of time zones, starts nothing
// and reads no clock.
package jobfile
