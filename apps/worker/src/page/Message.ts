/** What the worker sends to the page. */

/** The elements that contain fragments. */
export type Container = "summary" | "findings" | "sources" | "details"

/** The root element of the HTML has the id. */
export interface Fragment {
  readonly id: string
  readonly in: Container
  readonly html: string
}

export interface Message {
  /** The version of the assets. A browser with another version loads the page again. */
  readonly build: string
  /** The time of the snapshot, ISO 8601. */
  readonly at: string
  /** The fragments of each container, in order; absent if the order has not changed. */
  readonly order?: { readonly [container in Container]: ReadonlyArray<string> }
  /** The fragments whose HTML has changed. */
  readonly changed: ReadonlyArray<Fragment>
}

/** The data of the event `beat`, which is sent if nothing has changed for some time. */
export interface Beat {
  readonly at: string
}
