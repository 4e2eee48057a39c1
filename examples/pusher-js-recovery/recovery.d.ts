/** Options of installRecovery. */
export interface RecoveryOptions {
  /** For which presence channels members are fetched in pages and changes come together. */
  memberChanges?: (channelName: string) => boolean;
}

/**
 * Makes the clients of this pusher-js recover, those that are made after it. On a channel,
 * `weir:gap` says that events are lost: load your state anew. `weir:recovered` has the number of
 * `events` that follow.
 */
export function installRecovery(Pusher: object, options?: RecoveryOptions): void;
