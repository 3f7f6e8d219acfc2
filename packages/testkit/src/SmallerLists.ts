/** Lists with fewer or more fields, as an earlier or a later version of the program has them. */
import type { Lists } from "@payments/core"
import { Schema } from "effect"

/** A path is a field, or a field of an embedded object (`customerDetails.email`). */
export const without = (list: Lists.AnyList, ...paths: ReadonlyArray<string>): Lists.AnyList => {
  const record = paths.reduce(withoutPath, list.record as Struct) // every record is a struct
  // Destinations use only a list's name, label and fields, which have the same type for every list.
  return { ...list, record } as unknown as Lists.AnyList
}

export const withText = (list: Lists.AnyList, name: string): Lists.AnyList => {
  const record = Schema.Struct({ ...list.record.fields, [name]: Schema.optionalKey(Schema.NullOr(Schema.String)) })
  // As above.
  return { ...list, record } as unknown as Lists.AnyList
}

type Struct = Schema.Struct<Schema.Struct.Fields>

const withoutPath = ({ fields }: Struct, path: string): Struct => {
  const [name = "", inner] = path.split(".")
  const { [name]: field, ...others } = fields
  if (field === undefined) throw new Error(`there is no field ${path}`)
  if (inner === undefined) return Schema.Struct(others)
  // An embedded object has this form in Records.ts.
  const { schema } = field as Schema.optionalKey<Schema.NullOr<Struct>>
  return Schema.Struct({ ...fields, [name]: Schema.optionalKey(Schema.NullOr(withoutPath(schema.members[0], inner))) })
}
