/**
 * `docs/api.md`, made from the source: every public export of every entry with its docstring and its declaration as it
 * stands there, bodies left out. `npm run docs` writes it; a test holds it to the source, and asks for every docstring.
 */
import { writeFileSync } from "node:fs"
import { basename, dirname, join } from "node:path"
// TypeScript 7 has no compiler API.
import ts from "typescript-5"

/** The page, and the exports and members that have no docstring. */
export interface ApiPage {
  readonly text: string
  readonly undocumented: ReadonlyArray<string>
}

const folder = import.meta.dirname

/** Where the page stands. */
export const pageFile = join(folder, "../../docs/api.md")

const entries = ["index", "node", "promise", "testing"] as const

const importName = (entry: string) => `@payments/core${entry === "index" ? "" : `/${entry}`}`

/** Reads the source and makes the page. */
export const makeApiPage = (): ApiPage => {
  const { config } = ts.readConfigFile(join(folder, "tsconfig.build.json"), ts.sys.readFile)
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, folder)
  const files = entries.map((entry) => join(folder, `src/${entry}.ts`))
  return new Page(ts.createProgram(files, options)).make(files)
}

class Page {
  readonly #program: ts.Program
  readonly #checker: ts.TypeChecker
  readonly #undocumented: Array<string> = []
  /** Where each declaration was first shown, since an entry may export again what another one does. */
  readonly #shown = new Map<ts.Symbol, string>()
  /** The names of the records, by their fields. */
  readonly #records = new Map<string, string>()

  constructor(program: ts.Program) {
    this.#program = program
    this.#checker = program.getTypeChecker()
  }

  make(files: ReadonlyArray<string>): ApiPage {
    for (const symbol of this.#exportsOf(this.#source(files[0] ?? "")).map(({ target }) => target)) {
      if (symbol.declarations?.some(isRecord)) this.#records.set(this.#fieldsOf(symbol).join(), symbol.name)
    }
    const sections = files.map((file) => this.#module(this.#source(file), importName(basename(file, ".ts")), "", 2))
    const text = [
      "# API of `@payments/core`",
      "Made from the docstrings by `npm run docs`; a test holds it to them. [How to use it](library.md).",
      ...sections
    ].join("\n\n")
    return { text: `${text}\n`, undocumented: this.#undocumented }
  }

  #source(file: string): ts.SourceFile {
    const source = this.#program.getSourceFile(file)
    if (source === undefined) throw new Error(`${file} is not there`)
    return source
  }

  #exportsOf(source: ts.SourceFile): ReadonlyArray<{ readonly name: string; readonly target: ts.Symbol }> {
    const symbol = this.#checker.getSymbolAtLocation(source)
    return (symbol === undefined ? [] : this.#checker.getExportsOfModule(symbol)).map((entry) => ({
      name: entry.name,
      target: entry.flags & ts.SymbolFlags.Alias ? this.#checker.getAliasedSymbol(entry) : entry
    })).toSorted((one, other) => one.name < other.name ? -1 : 1)
  }

  /** One module: an entry, or the namespace that an entry makes of it. */
  #module(source: ts.SourceFile, title: string, prefix: string, depth: number): string {
    const header = /^\/\*\*.*?\*\//s.exec(source.text)?.[0]
    if (header === undefined) this.#undocumented.push(`${title} (the module)`)
    const again: Array<string> = []
    const parts: Array<string> = []
    for (const { name, target } of this.#exportsOf(source)) {
      const known = this.#shown.get(target)
      if (known === undefined) {
        this.#shown.set(target, prefix + name)
        parts.push(this.#export(prefix + name, target, depth + 1))
      } else again.push(`[\`${prefix}${name}\`](#${anchor(known)})`)
    }
    return [
      `${"#".repeat(depth)} \`${title}\``,
      header === undefined ? "" : prose(header),
      again.length === 0 ? "" : `Also here: ${again.join(", ")}.`,
      ...parts
    ].filter((part) => part !== "").join("\n\n")
  }

  #export(name: string, symbol: ts.Symbol, depth: number): string {
    const declarations = symbol.declarations ?? []
    const [module] = declarations
    if (module !== undefined && ts.isSourceFile(module)) return this.#module(module, name, `${name}.`, depth)
    const docs = declarations.map(docOf).filter((doc) => doc !== undefined && !doc.includes("@inheritDoc"))
    if (docs.length === 0) this.#undocumented.push(name)
    const code = declarations.map((declaration) => this.#declaration(name, symbol, declaration))
    return [
      `${"#".repeat(depth)} \`${name}\``,
      ...docs.map((doc) => prose(doc ?? "")),
      fenced(code.filter((text) => text !== "").join("\n"))
    ].join("\n\n")
  }

  #declaration(name: string, symbol: ts.Symbol, node: ts.Declaration): string {
    this.#requireMembers(name, node)
    if (isRecord(node)) return `interface ${symbol.name} {\n${this.#fieldsOf(symbol).join("\n")}\n}`
    if (ts.isInterfaceDeclaration(node) || ts.isTypeAliasDeclaration(node)) return plain(node.getText())
    if (ts.isClassDeclaration(node)) return classText(node)
    if (ts.isFunctionDeclaration(node)) return plain(node.getText().slice(0, (node.type ?? node).end - node.getStart()))
    if (ts.isVariableDeclaration(node)) return variableText(node, this.#checker)
    throw new Error(`${name} is a ${ts.SyntaxKind[node.kind]}, which this page cannot show yet`)
  }

  /** The fields of a record's type, which are written nowhere: they follow from the schema. */
  #fieldsOf(symbol: ts.Symbol): ReadonlyArray<string> {
    return this.#fieldsOfType(this.#checker.getDeclaredTypeOfSymbol(symbol))
  }

  #fieldsOfType(type: ts.Type): ReadonlyArray<string> {
    const position = (field: ts.Symbol) => field.declarations?.[0]?.pos ?? 0
    return this.#checker.getPropertiesOfType(type).toSorted((a, b) => position(a) - position(b)).map((field) => {
      const held = this.#checker.getNonNullableType(this.#checker.getTypeOfSymbol(field))
      const record = held.flags & ts.TypeFlags.Object ? this.#records.get(this.#fieldsOfType(held).join()) : undefined
      const text = record ?? this.#checker.typeToString(held, undefined, ts.TypeFormatFlags.NoTruncation)
      const optional = field.flags & ts.SymbolFlags.Optional
      const doc = field.declarations?.map(docOf).find((comment) => comment !== undefined)
      return `${indented(doc)}  readonly ${field.name}${optional ? "?" : ""}: ${text}${optional ? " | null" : ""}`
    })
  }

  /** The members of an interface, the fields of a record, the members of a class, and of the type that a class is made from. */
  #requireMembers(name: string, node: ts.Declaration): void {
    const members: Array<ts.TypeElement | ts.ClassElement | ts.PropertyAssignment> = []
    if (ts.isInterfaceDeclaration(node)) members.push(...node.members)
    if (ts.isClassDeclaration(node)) {
      members.push(...node.members)
      const visit = (child: ts.Node): void => {
        if (ts.isTypeLiteralNode(child)) members.push(...child.members)
        else ts.forEachChild(child, visit)
      }
      node.heritageClauses?.forEach(visit)
    }
    if (isRecord(node)) {
      const fields = this.#checker.getPropertiesOfType(this.#checker.getTypeAtLocation(node))
      members.push(...fields.flatMap(({ declarations = [] }) => declarations.filter(ts.isPropertyAssignment)))
    }
    for (const member of members) {
      const modifiers = ts.canHaveModifiers(member) ? ts.getModifiers(member) ?? [] : []
      const known = modifiers.some(({ kind }) => kind === ts.SyntaxKind.OverrideKeyword) ||
        member.name?.getText() === "_tag"
      if (!known && docOf(member) === undefined) this.#undocumented.push(`${name}.${member.name?.getText() ?? "?"}`)
    }
  }
}

/** An interface that is the type of a schema. */
const isRecord = (node: ts.Declaration): boolean =>
  ts.isInterfaceDeclaration(node) && node.members.length === 0 && node.heritageClauses !== undefined

const anchor = (name: string): string => name.toLowerCase().replaceAll(/[^a-z0-9_-]/g, "")

const fenced = (code: string): string => `\`\`\`ts\n${code}\n\`\`\``

/** The declaration without what is only for the module. */
const plain = (text: string): string => text.replace(/^export (?:declare )?/, "")

/** The docstring right before a node; that of a variable stands before its statement. */
const docOf = (node: ts.Node): string | undefined => {
  const owner = ts.isVariableDeclaration(node) ? node.parent.parent : node
  const text = owner.getSourceFile().text
  return ts.getLeadingCommentRanges(text, owner.getFullStart())
    ?.map(({ end, pos }) => text.slice(pos, end)).findLast((comment) => comment.startsWith("/**"))
}

/** A docstring as Markdown. */
const prose = (comment: string): string =>
  comment.replace(/^\/\*\*\s*/, "").replace(/\s*\*\/$/, "").split("\n").map((line) => line.replace(/^\s*\* ?/, ""))
    .join("\n")
    .replaceAll(/\{@link ([^}]+)\}/g, "`$1`")
    .replaceAll(/^@example\n?/gm, "")
    .replaceAll(/^@throws /gm, "Throws ")
    .trim()

const indented = (comment: string | undefined): string => comment === undefined ? "" : `  ${comment}\n`

const classText = (node: ts.ClassDeclaration): string => {
  const head = node.getSourceFile().text.slice(node.getStart(), node.members.pos).replace(/\s*\{$/, "")
  const members = node.members.map((member) => {
    const type = ts.isPropertyDeclaration(member) || ts.isGetAccessor(member) ? member.type : undefined
    const modifiers = (ts.canHaveModifiers(member) ? ts.getModifiers(member) ?? [] : []).map((modifier) =>
      modifier.getText()
    )
    const kind = ts.isGetAccessor(member) ? ["get"] : []
    const signature = type === undefined && ts.isPropertyDeclaration(member) ? arrowText(member.initializer) : undefined
    const rest = type === undefined ? signature ?? (kind.length > 0 ? "(): string" : "") : `: ${type.getText()}`
    return indented(docOf(member)) + `  ${[...modifiers, ...kind, member.name?.getText()].join(" ")}${rest}`
  })
  return plain(members.length === 0 ? `${head} {}` : `${head} {\n${members.join("\n")}\n}`)
}

/** The signature of a function as it stands, if its result is said there. */
const arrowText = (node: ts.Node | undefined): string | undefined => {
  if (node === undefined || !ts.isArrowFunction(node) || node.type === undefined) return undefined
  const { text } = node.getSourceFile()
  const parameters = text.slice(node.getStart(), node.type.getFullStart()).replace(/^async /, "").replace(/\s*:$/, "")
  return `: ${parameters} => ${node.type.getText()}`
}

const variableText = (node: ts.VariableDeclaration, checker: ts.TypeChecker): string => {
  const name = node.name.getText()
  if (node.type !== undefined) return `const ${name}: ${node.type.getText()}`
  const signature = arrowText(node.initializer)
  if (signature !== undefined) return `const ${name}${signature}`
  const type = checker.typeToString(checker.getTypeAtLocation(node), node, ts.TypeFormatFlags.NoTruncation)
  // The type of a schema or an API spells out all that it is made of.
  return `const ${name}: ${type.length < 200 ? type : /^\w/.test(type) ? type.replace(/<.*$/s, "<…>") : "{ … }"}`
}

if (process.argv[1] === import.meta.filename) {
  const { text } = makeApiPage()
  writeFileSync(pageFile, text)
  process.stdout.write(`${join(basename(dirname(pageFile)), basename(pageFile))}: ${text.split("\n").length} lines\n`)
}
