/** Errors of a destination as plain values, which a thread or a process can send: a copied object loses its class. */
import {
  Damaged,
  Denied,
  Failed,
  Full,
  LeaseLost,
  Locked,
  LogInUse,
  Moved,
  NotADestination,
  OtherMerchant,
  OtherRule,
  OtherSource,
  PersonalDataChanged,
  RowsRemoved,
  SinkError,
  type SinkReason,
  Unavailable,
  WrongSetting
} from "./Sink.ts"

/** The fields of an error. A copied object loses its class. */
export interface ErrorMessage {
  readonly location: string
  readonly tag: SinkReason["_tag"]
  readonly label: string
  readonly holder: string | undefined
  readonly loss: LeaseLost["loss"]
  readonly bound: string
  readonly given: string
  readonly isRewriting: boolean
  readonly reclassified: ReadonlyArray<string> | undefined
  readonly by: OtherMerchant["by"]
  readonly isLater: boolean
  readonly problem: string
  readonly advice: string | undefined
  readonly code: string
}

const emptyFields = {
  label: "",
  holder: undefined,
  loss: "expired",
  bound: "",
  given: "",
  isRewriting: false,
  reclassified: undefined,
  by: "key",
  isLater: false,
  problem: "",
  advice: undefined,
  code: ""
} as const

/** Encodes an error as a message. */
export const fromError = ({ location, reason }: SinkError): ErrorMessage => ({
  ...emptyFields,
  ...reason,
  location,
  tag: reason._tag
})

/** Decodes an error. */
export const toError = (message: ErrorMessage): SinkError =>
  new SinkError({ location: message.location, reason: reasonIn(message) })

const reasonIn = (
  { advice, bound, by, code, given, holder, isLater, isRewriting, label, loss, problem, reclassified, tag }:
    ErrorMessage
): SinkReason => {
  switch (tag) {
    case "Locked":
      return new Locked({ label, holder })
    case "LeaseLost":
      return new LeaseLost({ label, loss })
    case "Moved":
      return new Moved({ problem })
    case "RowsRemoved":
      return new RowsRemoved({ label })
    case "OtherSource":
      return new OtherSource({ bound, given })
    case "OtherRule":
      return new OtherRule({ bound, given, isRewriting, reclassified })
    case "LogInUse":
      return new LogInUse()
    case "PersonalDataChanged":
      return new PersonalDataChanged()
    case "OtherMerchant":
      return new OtherMerchant({ by })
    case "NotADestination":
      return new NotADestination({ problem, isLater })
    case "WrongSetting":
      return new WrongSetting({ problem })
    case "Damaged":
      return new Damaged({ problem, advice })
    case "Denied":
      return new Denied({ problem })
    case "Full":
      return new Full()
    case "Unavailable":
      return new Unavailable({ code })
    case "Failed":
      return new Failed({ code })
  }
}
