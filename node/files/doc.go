// Package files is what people keep on a peer and bring from others: it joins the store (what is on
// this disk), the tree (what a folder is) and the fetcher (what others have), for the local API.
//
//   - Put takes blobs and, last, what they are. A folder is kept only when everything its tree
//     names is here; then all of it is pinned, until a time or until Unput.
//   - Get writes blobs in the order of the tree while they come. What is damaged on this disk is
//     fetched again from others, as is what is not here. Bytes that leave here were checked.
//
// It has no goroutine of its own but one for each Get, which ends with it, and no state but the
// store's. It opens no path of a user. Memory: one piece and, for the files of one folder, 40 bytes
// each, of which there are a million at most.
package files
