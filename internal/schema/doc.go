// Package schema makes JSON Schemas (2020-12) of the Go types that our JSON is
// written from, and validates documents against them. It knows the part of the
// language that it makes: type, const, enum, properties, required, items,
// additionalProperties, $ref, $defs, anyOf. It does not know what the members
// mean, nor whose documents they are.
//
// A published schema is open: a later version of the program may add members, and
// a reader of today must not mind. Validation is strict: a member that the schema
// does not name is an error, for then the schema is behind the program.
package schema
