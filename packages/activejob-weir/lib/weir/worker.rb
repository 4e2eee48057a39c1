# frozen_string_literal: true

require "logger"
require "securerandom"
require "activejob-weir"

module Weir
  # One process that runs jobs of ActiveJob, in threads.
  class Worker
    # The server gives a worker up after jobs.heartbeat_timeout, a minute by default.
    BEAT_SECONDS = 15
    # Between attempts to reach the server.
    RETRY_SECONDS_MAX = 5
    # How long the outcome of a job is kept while the server can't be reached.
    REPORT_SECONDS_MAX = 300

    attr_reader :id

    def initialize(queues:, concurrency: 5, stop_timeout: 25, id: nil, logger: Logger.new($stderr))
      @queues, @concurrency, @stop_timeout, @logger = queues, concurrency, stop_timeout, logger
      @id = id || "#{Socket.gethostname}-#{SecureRandom.hex(4)}"
      @is_stopping = false
      @is_quiet = false
      @wake_reader, @wake_writer = IO.pipe
    end

    # Runs jobs until `stop`. Returns whether all that had begun have ended. Raises Weir::Error if the server can't be reached
    # at the start.
    def run
      heart = connect
      threads = Array.new(@concurrency) { Thread.new { serve } }
      yield if block_given?
      heart = beat(heart) until @wake_reader.wait_readable(BEAT_SECONDS)
      heart = wait_for(threads, heart)
      has_ended = threads.none?(&:alive?)
      @logger.warn("jobs did not end within #{@stop_timeout} s: the server gives them to another worker") unless has_ended
      heart&.finish
      has_ended
    end

    # Begins no more jobs, and lets `run` return. May be called in a signal handler.
    def stop
      @is_stopping = true
      @wake_writer.write_nonblock(".")
    end

    private

    def connect
      hello = { hostname: Socket.gethostname, wid: @id, pid: Process.pid, labels: %w[ruby activejob] }
      Connection.new(Address.parse, timeout: 30, hello: hello)
    end

    def wait_for(threads, heart)
      deadline = now + @stop_timeout
      next_beat = now + BEAT_SECONDS
      while threads.any?(&:alive?) && now < deadline
        threads.find(&:alive?)&.join([deadline, next_beat].min - now)
        next if now < next_beat

        heart = beat(heart)
        next_beat = now + BEAT_SECONDS
      end
      heart
    end

    def beat(connection)
      connection ||= connect
      reply = connection.command("BEAT", { wid: @id })
      stop if reply.include?("terminate")
      @is_quiet = true if reply.include?("quiet")
      connection
    rescue Error => error
      @logger.warn("no heartbeat: #{error.message}")
      connection&.close
      nil
    end

    # A thread that runs jobs.
    def serve
      connection = nil
      until @is_stopping
        if @is_quiet
          sleep 0.5
          next
        end
        begin
          connection ||= connect
          job = connection.fetch(@queues)
        rescue Error => error
          @logger.warn("no job: #{error.message}")
          connection&.close
          connection = nil
          sleep_unless_stopping(RETRY_SECONDS_MAX)
          next
        end
        connection = report(connection, *outcome(job)) if job
      end
      connection&.finish
    end

    # Runs a job. Returns the command that reports how it ended.
    def outcome(job)
      ActiveJob::Base.execute(serialized(job))
      ["ACK", { jid: job["jid"] }]
    rescue Exception => error # rubocop:disable Lint/RescueException -- also a NoMemoryError must be reported
      @logger.error("#{job["jobtype"]} failed: #{error.class}: #{error.message}")
      failure = { errtype: error.class.name, message: error.message.to_s.scrub, backtrace: (error.backtrace || []).first(50) }
      ["FAIL", { jid: job["jid"], **failure }]
    end

    def serialized(job)
      data = job["args"]&.first
      return data if job["args"]&.size == 1 && data.is_a?(Hash) && data["job_class"] == job["jobtype"]

      raise ArgumentError, "#{job["jobtype"]} was not enqueued by ActiveJob's adapter weir"
    end

    # Tries again while the server can't be reached. Returns the connection, or nil.
    def report(connection, verb, payload)
      deadline, seconds = now + REPORT_SECONDS_MAX, 0.1
      begin
        connection ||= connect
        connection.command(verb, payload)
      rescue ServerError => error
        @logger.error("#{verb} #{payload[:jid]}: #{error.message}")
      rescue Error => error
        connection&.close
        connection = nil
        if now < deadline
          sleep seconds
          seconds = [seconds * 2, RETRY_SECONDS_MAX].min
          retry
        end
        @logger.error("#{verb} #{payload[:jid]} was given up: #{error.message}")
      end
      connection
    end

    def sleep_unless_stopping(seconds)
      deadline = now + seconds
      sleep 0.1 until @is_stopping || now > deadline
    end

    def now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
end
