/** The whole page. Browsers without JavaScript show it as it is; others keep it up to date. */
import { counted } from "@payments/program"
import { Html, html } from "@payments/program/html"
import type { Snapshot } from "../state/StatusSnapshot.ts"
import { assetPath } from "./Assets.ts"
import { summary } from "./Diagnosis.ts"
import type { Container, Fragment } from "./Message.ts"
import { time } from "./Words.ts"

export interface PageParts {
  readonly build: string
  /** The version of the fragments. The first message says what has changed since. */
  readonly version: string
  /** The only source of the page; undefined if it shows all. */
  readonly source: string | undefined
  readonly snapshot: Snapshot
  readonly fragments: ReadonlyArray<Fragment>
}

const columns = ["List", "Age", "Now", "Rows", "Missing", "Quarantine", "Next run"]

export const document = ({ build, fragments, snapshot, source, version }: PageParts): string => {
  const of = (container: Container) =>
    fragments.filter((fragment) => fragment.in === container).map((fragment) => new Html(fragment.html))
  const shown = source === undefined ? snapshot.sources : snapshot.sources.filter(({ name }) => name === source)
  const { tone, word } = summary({ ...snapshot, sources: shown })
  return `<!doctype html>${
    html`<html lang="en" data-build="${build}" data-version="${version}" data-source="${source}">
    <head>
      <meta charset="utf-8">
      <meta name="viewport" content="width=device-width, initial-scale=1">
      <meta name="color-scheme" content="light dark">
      <title>${word} · payments-worker</title>
      <link rel="icon" href="${assetPath(build, `${tone}.svg`)}" type="image/svg+xml">
      <link rel="stylesheet" href="${assetPath(build, "page.css")}">
      <script type="module" src="${assetPath(build, "page.js")}"></script>
      <script type="module" src="${assetPath(build, "charts.js")}"></script>
    </head>
    <body>
      ${sprite}
      <a class="skip" href="#sources">Skip to the lists</a>
      <header class="top"><div class="wide">
        <span class="who"><a class="brand" href="/">payments-worker</a>${
      snapshot.cluster === null
        ? undefined
        : html` <span class="runner">Runner <bdi>${snapshot.cluster.runner}</bdi></span>`
    }</span>
        <span class="live" id="live" data-state="static"><span class="dot"></span><span id="live-text">As of ${
      time(snapshot.at, snapshot.at)
    }</span></span>
      </div></header>
      <main class="wide">
        ${source === undefined ? undefined : html`<p class="back"><a href="/">All sources</a></p>`}
        <div id="summary">${of("summary")}</div>
        <p id="spoken" class="unseen" role="status"></p>
        <div id="findings">${of("findings")}</div>
        <section aria-labelledby="sources-title">
          <div class="bar-above"><h2 id="sources-title">Sources and lists</h2>
            <form id="filter" class="filter" role="search" hidden>
              <label for="filter-text">Filter</label>
              <input id="filter-text" type="search" autocomplete="off" spellcheck="false" placeholder="name, destination or state">
              <label class="check"><input id="filter-wrong" type="checkbox"> Only what needs a look</label>
              <span id="filter-count" class="muted" role="status"></span>
            </form>
          </div>
          <table id="sources" class="card lists" role="table" aria-labelledby="sources-title" tabindex="-1">
            <thead role="rowgroup"><tr role="row">${
      columns.map((name) => html`<th role="columnheader" scope="col">${name}</th>`)
    }</tr></thead>
            ${of("sources")}
          </table>
        </section>
        <div id="details">${of("details")}</div>
      </main>
      <footer class="wide muted">
        <p>Version ${snapshot.version}, running since ${time(snapshot.startedAt, snapshot.at)}, ${
      counted(snapshot.sources.length, "source")
    }. All times are UTC.</p>
        <noscript><p>Without JavaScript this page does not update itself: load it again.</p></noscript>
      </footer>
    </body>
  </html>`.markup
  }`
}

const symbol = (name: string, path: string): Html =>
  html`<symbol id="icon-${name}" viewBox="0 0 16 16">${new Html(path)}</symbol>`

/** The symbols of the tones differ in shape, so that they can be told apart without colours. */
const sprite = html`<svg class="sprite" aria-hidden="true">
  ${symbol("good", `<circle cx="8" cy="8" r="7"/><path class="cut" d="M4.8 8.3l2.2 2.2 4.2-4.6"/>`)}
  ${
  symbol(
    "bad",
    `<path d="M5.1 1h5.8L15 5.1v5.8L10.9 15H5.1L1 10.9V5.1z"/><path class="cut" d="M5.6 5.6l4.8 4.8M10.4 5.6l-4.8 4.8"/>`
  )
}
  ${symbol("warn", `<path d="M8 1.2L15.4 14.5H.6z"/><path class="cut" d="M8 6v4M8 11.9v.6"/>`)}
  ${symbol("idle", `<circle cx="8" cy="8" r="7"/><path class="cut" d="M5 8h6"/>`)}
</svg>`
