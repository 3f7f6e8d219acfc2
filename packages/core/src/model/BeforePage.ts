/** A hook that pauses listings. */
import { Context, Effect } from "effect"

/**
 * Runs before each page request of a listing; by default it does nothing. Provide it to the effect that runs the listing. The
 * listing requests no page while the hook waits.
 */
export const BeforePage: Context.Reference<Effect.Effect<void>> = Context.Reference("@payments/core/BeforePage", {
  defaultValue: () => Effect.void
})
