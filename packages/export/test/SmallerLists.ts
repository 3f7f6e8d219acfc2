/** Lists with fewer fields: what an earlier version of the program knows. */
import type { Lists } from "@payments/core"
import { Schema } from "effect"

/** A list whose record has no such field, or no such field of an embedded object (`customerDetails.email`). */
export const without = (list: Lists.AnyList, ...paths: ReadonlyArray<string>): Lists.AnyList => {
  const record = paths.reduce(withoutPath, list.record as Struct) // every record is a struct
  // Destinations read a list's name, label and fields alone, and those of any list have the same type.
  return { ...list, record } as unknown as Lists.AnyList
}

type Struct = Schema.Struct<Schema.Struct.Fields>

const withoutPath = ({ fields }: Struct, path: string): Struct => {
  const [name = "", inner] = path.split(".")
  const { [name]: field, ...others } = fields
  if (field === undefined) throw new Error(`there is no field ${path}`)
  if (inner === undefined) return Schema.Struct(others)
  // As Records.ts writes an embedded object.
  const { schema } = field as Schema.optionalKey<Schema.NullOr<Struct>>
  return Schema.Struct({ ...fields, [name]: Schema.optionalKey(Schema.NullOr(withoutPath(schema.members[0], inner))) })
}
