# frozen_string_literal: true

require_relative "lib/weir/version"

Gem::Specification.new do |spec|
  spec.name = "activejob-weir"
  spec.version = Weir::VERSION
  spec.summary = "An ActiveJob adapter for the job server of Weir, and its worker"
  spec.authors = ["Weir contributors"]
  spec.license = "Apache-2.0"
  spec.required_ruby_version = ">= 3.0"
  spec.files = Dir["lib/**/*.rb", "exe/*", "README.md", "LICENSE"]
  spec.bindir = "exe"
  spec.executables = ["weir-worker"]
  spec.add_dependency "activejob", ">= 6.1", "< 9"
  spec.metadata = { "rubygems_mfa_required" => "true" }
end
