# What Sidekiq's bin/sidekiqload runs in: its gems from folders instead of Bundler, and, with WEIR_JOBS=HOST:PORT,
# threads that take their jobs from Weir instead of Sidekiq's own. WEIR_BATCH jobs per FETCHB and ACKB; without it,
# FETCH and ACK.
require "json"
require "set"
require "socket"

# Sidekiq 8 asks for Ruby 3.2. What is used here runs on 3.1, Debian 12's, as well.
if RUBY_VERSION < "3.2"
  Object.send(:remove_const, :RUBY_VERSION)
  RUBY_VERSION = "3.2.0"
end

$LOADED_FEATURES << "bundler/setup.rb"
module Bundler
  def self.require(*) = Kernel.require("sidekiq")
end

# A worker that speaks Faktory's protocol and runs the jobs of one connection.
class WeirWorker
  def initialize(host, port, batch)
    @socket, @batch = TCPSocket.new(host, port), batch
    @socket.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1)
    read
    run("HELLO " + JSON.generate(v: 2, wid: "sidekiqload-#{object_id}", pid: Process.pid, hostname: "load", labels: []))
  end

  def work = loop { @batch ? work_on_batch : work_on_one }

  private

  def work_on_one
    return unless (text = run("FETCH default"))
    run(%(ACK {"jid":"#{perform(text)}"}))
  end

  def work_on_batch
    jids = run("FETCHB #{@batch} default").map { |text| perform(text) }
    run("ACKB " + JSON.generate(jids)) unless jids.empty?
  end

  def perform(text)
    job = JSON.parse(text)
    Object.const_get(job["jobtype"]).new.perform(*job["args"])
    job["jid"]
  end

  def run(command)
    @socket.write(command, "\r\n")
    read
  end

  def read
    line = @socket.gets("\r\n", chomp: true) or raise EOFError, "Weir closed the connection"
    rest = line[1..]
    case line[0]
    when "-" then raise rest
    when "*" then Array.new(rest.to_i) { read }
    when "$" then rest == "-1" ? nil : @socket.read(rest.to_i + 2).chomp
    else rest
    end
  end
end

# In place of Sidekiq's launcher.
module DrainedByWeir
  def run
    host, port = ENV["WEIR_JOBS"].split(":")
    @threads = Array.new(config.concurrency) do
      Thread.new { WeirWorker.new(host, port.to_i, ENV["WEIR_BATCH"]).work }
    end
    @threads.each { |thread| thread.abort_on_exception = true }
  end

  def quiet = nil

  def stop = @threads&.each(&:kill)
end

if ENV["WEIR_JOBS"]
  Bundler.require
  require "sidekiq/embedded"
  Sidekiq::Embedded.prepend(DrainedByWeir)
end
