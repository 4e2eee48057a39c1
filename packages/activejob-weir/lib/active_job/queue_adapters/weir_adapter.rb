# frozen_string_literal: true

require "securerandom"
require "time"

module ActiveJob
  module QueueAdapters
    # Enqueues to the job server of Weir: `config.active_job.queue_adapter = :weir`. The server is that of FAKTORY_URL.
    #
    # Raises Weir::QueueFull, Weir::ServerError or Weir::ConnectionLost. After a ConnectionLost whose text says so, the job may
    # have been enqueued.
    class WeirAdapter
      OPTIONS = %i[retry reserve_for backtrace custom].freeze

      def enqueue(job)
        push(job)
      end

      def enqueue_at(job, timestamp)
        push(job, at: Time.at(timestamp).utc.iso8601(6))
      end

      # Rails 7.2: a job waits until the transaction in which it was enqueued has been committed.
      def enqueue_after_transaction_commit?
        true
      end

      private

      def push(job, **time)
        # The id of ActiveJob stays the same when a job is retried; that of the server must not.
        jid = SecureRandom.hex(16)
        payload = { jid: jid, jobtype: job.class.name, queue: job.queue_name, args: [job.serialize], backtrace: 30, **time }
        send_push(payload.merge(options(job)))
        job.provider_job_id = jid
      end

      def options(job)
        options = job.class.weir_options
        unknown = options.keys - OPTIONS
        return options if unknown.empty?

        raise ArgumentError, "#{job.class.name}.weir_options: unknown #{unknown.join(", ")}; there are #{OPTIONS.join(", ")}"
      end

      def send_push(payload)
        connection = usable_connection
        begin
          connection.command("PUSH", payload)
        rescue ::Weir::ConnectionLost => error
          connection.close
          raise ::Weir::ConnectionLost, "#{error.message}; the job may have been enqueued"
        end
      end

      # Each thread keeps a connection.
      def usable_connection
        kept = Thread.current.thread_variable_get(:weir_connection)
        return kept if kept&.usable?

        kept&.close
        connection = ::Weir::Connection.new(::Weir::Address.parse)
        Thread.current.thread_variable_set(:weir_connection, connection)
        connection
      end
    end
  end
end
