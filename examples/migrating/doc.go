// Package migrating has the code that docs/migrating.md shows: small programs with
// other libraries and the same programs with Stint. Its tests check what the document
// says of their differences.
package migrating
