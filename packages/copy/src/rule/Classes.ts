/**
 * The table of classes: whom or what each documented field of each list identifies. What a rule or an erasure leaves out depends
 * on it, so a destination knows the table under which its texts were written. A version of this program that puts a field into
 * another class finds the destinations in which that field has to be removed.
 */
import { Lists } from "@payments/core"

/** By the list's name and the field's path. */
export type Classes = { readonly [field: string]: Lists.FieldMeaning["identifies"] }

export const classKey = (list: Lists.AnyList, path: ReadonlyArray<string>): string => `${list.label} ${path.join(".")}`

export const sorted = <A>(entries: ReadonlyArray<readonly [string, A]>): { readonly [path: string]: A } =>
  Object.fromEntries(entries.toSorted(([one], [other]) => one < other ? -1 : 1))

export const currentClasses: Classes = sorted(
  Lists.all.flatMap((list) =>
    Lists.fieldMeanings(list).map(({ identifies, path }) => [classKey(list, path), identifies] as const)
  )
)

const customerDetails = "customerDetails.reference customerDetails.name customerDetails.documentNumber " +
  "customerDetails.email customerDetails.phoneNumber"

/** The table of the destinations whose rule does not say another one. Never change it: change `Records.ts` of `packages/core`. */
const firstTable: { readonly [list: string]: { readonly [identifies in Classes[string]]: string } } = {
  "payout-requests": {
    person:
      `customerId ${customerDetails} payoutTargetId payoutTargetDetails.reference payoutTargetDetails.description`,
    payment: "id reference",
    nobody: "customerDetails.documentType payoutTargetDetails.type status statusMessage amount amountSent fee " +
      "sourceMerchantAccountId createdAt updatedAt"
  },
  "payin-sources": {
    person: `description customerId ${customerDetails} authUrl redirectUrl`,
    payment: "id reference",
    nobody: "customerDetails.documentType status statusMessage partialPayinsEnabled type createdAt updatedAt"
  },
  "invoices": {
    person: "description contract customerDocumentNumber",
    payment: "id reference paymentId paymentUrl",
    nobody:
      "status amount createdAt paymentDate paymentMethod paymentSource paymentAmount settlementDate settlementTime"
  }
}

/** {@inheritDoc firstTable} */
export const firstClasses: Classes = sorted(
  Object.entries(firstTable).flatMap(([list, { nobody, payment, person }]) =>
    Object.entries({ nobody, payment, person }).flatMap(([identifies, paths]) =>
      // The keys of this object are those of the type.
      paths.split(" ").map((path) => [`${list} ${path}`, identifies as Classes[string]] as const)
    )
  )
)

export const isFirstTable: boolean = JSON.stringify(currentClasses) === JSON.stringify(firstClasses)
