/** A position in the history of a channel. */
export interface Position {
  epoch: string;
  offset: number;
}

/** Options of installRecovery. */
export interface RecoveryOptions {
  /** Selects the presence channels whose members are fetched in pages and then kept up to date by differences. */
  memberChanges?: (channelName: string) => boolean;
}

/** The part of a channel of pusher-js that onGap and onRecovered use. */
export interface PusherChannel {
  bind(event: string, callback: (data: any) => void): unknown;
  unbind(event?: string, callback?: (data: any) => void): unknown;
}

/** A channel of Laravel Echo with the broadcaster `pusher` or `reverb`. */
export interface EchoChannel {
  subscription: any;
}

/**
 * Makes all clients recover that this pusher-js creates from now on. Throws a TypeError if `Pusher` is not the
 * class of pusher-js. Further calls have no effect.
 */
export function installRecovery(Pusher: object, options?: RecoveryOptions): void;

/**
 * Calls back when events of the channel are lost, with the channel's current position: load its state again.
 * Returns a function that ends this.
 */
export function onGap(channel: PusherChannel | EchoChannel, callback: (position: Position) => void): () => void;

/**
 * Calls back when the channel is subscribed again and its missed events follow, with their number. Returns a
 * function that ends this.
 */
export function onRecovered(channel: PusherChannel | EchoChannel, callback: (recovered: { events: number }) => void): () => void;
