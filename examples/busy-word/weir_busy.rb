# frozen_string_literal: true

# Tells Weir what this worker does (docs/front-sockets.md). Needs Rack, and Ruby's own fiddle.
#
#   require_relative "weir_busy"
#   use WeirBusy::Middleware
require "fiddle"
require "rack/body_proxy"

module WeirBusy
  RECORD_BYTES = 32
  IDLE = 0

  # The record of this worker in the memory that it shares with Weir.
  class Word
    # nil: Weir has not started this worker, or not with mode = "sockets".
    def self.of_this_worker(environment = ENV)
      descriptor, index = environment.values_at("WEIR_BUSY_FD", "WEIR_BUSY_INDEX")
      new(Integer(descriptor), Integer(index)) if descriptor && index
    end

    def initialize(descriptor, index)
      @record = map(descriptor, (index + 1) * RECORD_BYTES) + (index * RECORD_BYTES)
      @mutex = Mutex.new
      # When each began; a Hash keeps its order, so the first is the oldest.
      @running = {}.compare_by_identity
      # What a process left behind that had this record before.
      store(0, IDLE)
    end

    # A request begins. Answers what `end` is to be told.
    def begin
      token = Object.new
      @mutex.synchronize do
        now = Process.clock_gettime(Process::CLOCK_MONOTONIC, :millisecond)
        store(0, now) if @running.empty?
        @running[token] = now
      end
      token
    end

    # It has ended. Of a second time nothing comes.
    def end(token)
      @mutex.synchronize do
        if @running.delete(token)
          store(8, @record[8, 8].unpack1("Q") + 1)
          store(0, @running.empty? ? IDLE : @running.each_value.first)
        end
      end
    end

    private

    READ_AND_WRITE = 3
    SHARED = 1

    def map(descriptor, bytes)
      types = [Fiddle::TYPE_VOIDP, Fiddle::TYPE_SIZE_T, Fiddle::TYPE_INT, Fiddle::TYPE_INT, Fiddle::TYPE_INT,
               Fiddle::TYPE_LONG]
      mmap = Fiddle::Function.new(Fiddle::Handle::DEFAULT["mmap"], types, Fiddle::TYPE_VOIDP)
      memory = mmap.call(nil, bytes, READ_AND_WRITE, SHARED, descriptor, 0)
      raise SystemCallError.new("WEIR_BUSY_FD", Fiddle.last_error) if [-1, (2**64) - 1].include?(memory.to_i)

      memory
    end

    # Eight bytes are stored at once.
    def store(offset, value)
      @record[offset, 8] = [value].pack("Q")
    end
  end

  # Rack's proxy finds a method of the body by method_missing; each is called for every response.
  class Body < Rack::BodyProxy
    def each(&block)
      @body.each(&block)
    end
  end

  # Keeps the word.
  class Middleware
    def initialize(app, word = Word.of_this_worker)
      @app = app
      @word = word
    end

    def call(env)
      return @app.call(env) unless @word

      token = @word.begin
      begin
        status, headers, body = @app.call(env)
      rescue Exception # whatever it is, the worker is done with it
        @word.end(token)
        raise
      end
      # A body that is called, not iterated over (Rack 3), must not seem to have each.
      proxy = body.respond_to?(:each) ? Body : Rack::BodyProxy
      [status, headers, proxy.new(body) { @word.end(token) }]
    end
  end
end
