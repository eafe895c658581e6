// Package ruleedit edits the text of rule files and compares rule files.
//
// Use it where operators change single rules, tiers, overrides and list entries
// of a set that people also write by hand. [Apply] changes only the lines of the
// edited part: comments, order and layout of the other lines stay. It applies
// all edits or none, and the result is a set that loads. [ReadContents] and
// [Fresh] say how two sets differ.
//
// Deciding requests by rules is package rule's, which knows nothing of edits.
package ruleedit
