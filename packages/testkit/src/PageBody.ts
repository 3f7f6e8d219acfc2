/** The bodies of pages that tests send. Only tests of odd bytes write a body themselves. */
import { Lists } from "@payments/core"
import { ListServer } from "@payments/core/testing"

/**
 * Returns the body of a page with these records, which are objects or JSON texts, and with the cursor of the next page.
 */
export const page = (items: ReadonlyArray<object | string> = [], cursor: string | null = null): string => {
  const texts = items.map((item) => typeof item === "string" ? item : JSON.stringify(item))
  return ListServer.renderPage(Lists.documentedPage, { _tag: "Page", items: texts, next: cursor, count: texts.length })
    .body
}
