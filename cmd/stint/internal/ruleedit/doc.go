// Package ruleedit edits the text of rule files and compares rule files.
//
// Use it where operators change single rules, tiers, overrides and list entries
// of a set that people also write by hand. [Apply] changes only the lines of the
// edited part: comments, order and layout of the other lines stay. It applies
// all edits or none, and the result is a set that loads. [ReadContents] and
// [Fresh] tell how two sets differ.
//
// A YAML encoder would reformat the whole file. An edit therefore changes the
// parsed nodes and then rewrites as few lines as possible: those of the innermost
// entry on the path to the change that stands on lines of its own. The new text is
// accepted only if it parses to the changed nodes. Otherwise the next outer entry
// is rewritten, and at last the whole file. An edit parses the file about four
// times; an alias that is edited becomes a copy of its target.
//
// Package rule decides requests by rules and knows nothing of edits.
package ruleedit
