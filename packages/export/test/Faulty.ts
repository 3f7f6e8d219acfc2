/** A file system whose k-th call fails. */
import { Effect, FileSystem, Layer, PlatformError } from "effect"

/** Counts calls and fails the one of that number; with `lasting`, every later one too. Of a failing write, half is written. */
export class Fault {
  readonly call: number
  readonly lasting: boolean
  readonly code: "EIO" | "ENOSPC"
  calls = 0

  constructor(call: number, lasting: boolean, code: "EIO" | "ENOSPC") {
    this.call = call
    this.lasting = lasting
    this.code = code
  }

  get reached(): boolean {
    return this.calls >= this.call
  }

  /** Whether this call fails. */
  next(): boolean {
    this.calls++
    return this.lasting ? this.calls >= this.call : this.calls === this.call
  }
}

/** The file system that is there, with the fault. Only what the sink calls counts. */
export const faulty = (fault: Fault): Layer.Layer<FileSystem.FileSystem, never, FileSystem.FileSystem> =>
  Layer.effect(
    FileSystem.FileSystem,
    Effect.map(FileSystem.FileSystem, (fs): FileSystem.FileSystem => {
      const broken = (method: string) =>
        Effect.fail(PlatformError.systemError({
          _tag: "Unknown",
          module: "FileSystem",
          method,
          cause: Object.assign(new Error(fault.code), { code: fault.code })
        }))
      const guarded = <A, E, R>(method: string, call: Effect.Effect<A, E, R>) =>
        Effect.suspend((): Effect.Effect<A, E | PlatformError.PlatformError, R> => fault.next() ? broken(method) : call)
      const file = (real: FileSystem.File): FileSystem.File => ({
        ...real,
        sync: guarded("sync", real.sync),
        writeAll: (bytes) =>
          Effect.suspend(() =>
            fault.next()
              ? Effect.andThen(real.writeAll(bytes.subarray(0, bytes.length >> 1)), broken("writeAll"))
              : real.writeAll(bytes)
          )
      })
      return {
        ...fs,
        makeDirectory: (path, options) => guarded("makeDirectory", fs.makeDirectory(path, options)),
        open: (path, options) => guarded("open", Effect.map(fs.open(path, options), file)),
        readDirectory: (path, options) => guarded("readDirectory", fs.readDirectory(path, options)),
        readFile: (path) => guarded("readFile", fs.readFile(path)),
        remove: (path, options) => guarded("remove", fs.remove(path, options)),
        rename: (from, to) => guarded("rename", fs.rename(from, to)),
        stat: (path) => guarded("stat", fs.stat(path))
      }
    })
  )
